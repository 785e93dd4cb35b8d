#include "starling/kernels/cpu/fused/fused_schedule.h"

#include <algorithm>
#include <limits>

#include "starling/kernels/cpu/fused/op_blocks.h"

namespace starling::kernels {
namespace {

using StorageClass = FusedSchedule::StorageClass;

FoldOp fold_op(const std::string& name) {
  if (name == "prod") return FoldOp::prod;
  if (name == "max") return FoldOp::max;
  return name == "min" ? FoldOp::min : FoldOp::sum;
}

class Scheduler {
 public:
  Scheduler(const FusedProgram& program, const FusedGrid& grid, const std::vector<TensorType>& types)
      : program_(program), grid_(grid), types_(types), below_(program.reduced()), sweep_(types.size(), 0) {
    whole_ = fused_shape({types.data(), static_cast<std::size_t>(program.operands)});
    made_.values.resize(types.size());
  }

  std::optional<FusedSchedule> run() {
    if (!describe() || !place_in_sweeps()) return std::nullopt;
    note_readers();
    sink();
    if (!emit()) return std::nullopt;
    note_later();
    for (auto& sweep : made_.sweeps) join_runs(sweep);
    give_slots();
    return std::move(made_);
  }

 private:
  FusedSchedule::Value& value(int v) { return made_.values[static_cast<std::size_t>(v)]; }
  int& sweep(int v) { return sweep_[static_cast<std::size_t>(v)]; }
  const TensorType& type(int v) const { return types_[static_cast<std::size_t>(v)]; }
  int end() const { return static_cast<int>(types_.size()); }
  int reduction_of(int v) const {
    for (std::size_t r = 0; r < grid_.reductions.size(); ++r) {
      if (grid_.reductions[r].value == v) return static_cast<int>(r);
    }
    return -1;
  }

  bool describe() {
    for (int v = 0; v < end(); ++v) {
      value(v).bytes = static_cast<int>(size_of(type(v).dtype));
      if (value(v).bytes == 2) return false;
      made_.widest = std::max(made_.widest, value(v).bytes);
    }
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const int v = program_.outputs[o];
      if (!program_.is_step(v) || value(v).output >= 0) return false;
      value(v).output = static_cast<int>(o);
    }
    return true;
  }

  // Shape of row values: the whole shape with sizes of 1 along the dimensions that row reductions reduce.
  Shape row_shape() const {
    for (const auto& reduction : grid_.reductions) {
      if (reduction.of_rows()) return type(reduction.value).shape;
    }
    return whole_;
  }

  // Assigns each value its earliest sweep; for a row value, the first sweep that may read it.
  bool place_in_sweeps() {
    const Shape row = row_shape();
    for (int v = program_.operands; v < end(); ++v) {
      const FusedStep& step = program_.step(v);
      int first = 0;
      bool wide = step.stretches() || !below_[static_cast<std::size_t>(v)] || type(v).shape != row;
      for (int in : step.in) {
        if (value(in).storage == StorageClass::total) return false;
        first = std::max(first, sweep(in));
        wide = wide || (program_.is_step(in) && !value(in).of_rows);
      }
      if (step.reduces()) {
        const auto& reduction = grid_.reductions[static_cast<std::size_t>(reduction_of(v))];
        if (value(step.in[0]).of_rows || !is_float(type(v).dtype)) return false;
        value(v).of_rows = reduction.of_rows();
        value(v).storage = reduction.of_rows() ? StorageClass::row : StorageClass::total;
        sweep(v) = first + 1;
        continue;
      }
      if (wide && type(v).shape != whole_) return false;
      value(v).of_rows = !wide;
      value(v).storage = wide ? StorageClass::temporary : StorageClass::row;
      sweep(v) = first;
    }
    return true;
  }

  void note_readers() {
    for (int v = 0; v < program_.operands; ++v) value(v).storage = StorageClass::operand;
    for (int v = program_.operands; v < end(); ++v) {
      const FusedStep& step = program_.step(v);
      for (int in : step.in) {
        value(in).read_row |= value(v).of_rows && !step.reduces();
        value(in).read_full |= step.reduces() || !value(v).of_rows;
        value(in).folded |= step.reduces();
      }
    }
  }

  // Sweep in which a step reads its operands.
  int reads_in(int v) { return program_.step(v).reduces() ? sweep(v) - 1 : sweep(v); }

  void sink() {
    for (int v = end() - 1; v >= program_.operands; --v) {
      if (value(v).storage != StorageClass::temporary) continue;
      int least = std::numeric_limits<int>::max();
      for_readers(v, [&](int user) { least = std::min(least, reads_in(user)); });
      if (least != std::numeric_limits<int>::max()) sweep(v) = std::max(sweep(v), least);
    }
  }

  template <class F>
  void for_readers(int v, F&& f) {
    for (int user = std::max(v + 1, program_.operands); user < end(); ++user) {
      const auto& in = program_.step(user).in;
      if (std::find(in.begin(), in.end(), v) != in.end()) f(user);
    }
  }

  bool emit() {
    int sweeps = 1;
    for (int v = program_.operands; v < end(); ++v)
      sweeps = std::max(sweeps, (value(v).of_rows ? sweep(v) - 1 : reads_in(v)) + 1);
    made_.sweeps.resize(static_cast<std::size_t>(sweeps));
    for (int v = program_.operands; v < end(); ++v) {
      const FusedStep& step = program_.step(v);
      if (step.reduces()) {
        const int r = reduction_of(v);
        const auto& reduction = grid_.reductions[static_cast<std::size_t>(r)];
        const bool f64 = type(v).dtype == DType::f64;
        const double scale = step.op->name == "mean" ? 1 / reduction.count : 1.0;
        made_.sweeps[static_cast<std::size_t>(reads_in(v))].folds.push_back(static_cast<int>(made_.folds.size()));
        made_.folds.push_back(
            {r, step.in[0], fold_fns(fold_op(step.op->name), f64), scale, f64, fold_op(step.op->name)});
        continue;
      }
      FusedSchedule::Call call{.out = v};
      if (!call_of(step, call)) return false;
      if (value(v).of_rows)
        made_.sweeps[static_cast<std::size_t>(sweep(v) - 1)].row_calls.push_back(call);
      else
        made_.sweeps[static_cast<std::size_t>(sweep(v))].calls.push_back(call);
    }
    return true;
  }

  bool call_of(const FusedStep& step, FusedSchedule::Call& call) const {
    SmallVector<DType, 4> dtypes;
    for (std::size_t k = 0; k < step.in.size(); ++k) {
      if (k >= call.in.size()) return false;
      dtypes.push_back(type(step.in[k]).dtype);
      call.in[k] = step.in[k];
    }
    if (step.stretches()) return true;
    call.fn = find_block(*step.op, {dtypes.data(), dtypes.size()}).fn;
    std::copy(step.attributes.begin(), step.attributes.end(), call.params.begin());
    return call.fn != nullptr;
  }

  void note_later() {
    for (int v = program_.operands; v < end(); ++v) {
      if (value(v).storage != StorageClass::temporary) continue;
      for_readers(v, [&](int user) { value(v).later = value(v).later || reads_in(user) > sweep(v); });
    }
  }

  // Joins a cheap call with the next cheap one if nothing else reads its result.
  void join_runs(FusedSchedule::Sweep& sweep) {
    std::vector<FusedSchedule::Call> joined;
    for (auto& call : sweep.calls) {
      const int before = run_before(joined, call);
      FusedSchedule::Call made = call;
      if (before >= 0) {
        made = std::move(joined[static_cast<std::size_t>(before)]);
        joined.erase(joined.begin() + before);
        made.run.push_back(run_step(call, made.out));
        made.out = call.out;
      } else if (can_run(call)) {
        made.run.push_back(run_step(call, call.in[0]));
      }
      joined.push_back(std::move(made));
    }
    for (auto& call : joined) end_run(call, sweep);
    sweep.calls = std::move(joined);
  }

  bool can_run(const FusedSchedule::Call& call) const {
    const FusedStep& step = program_.step(call.out);
    if (!call.fn || !run_op(step.op->name, 0) || !is_float(type(call.out).dtype)) return false;
    const bool twice = call.in[0] == call.in[1];
    return !twice || step.op->name == "mul";
  }

  FusedSchedule::Step run_step(const FusedSchedule::Call& call, int from) const {
    const FusedStep& step = program_.step(call.out);
    if (call.in[0] == call.in[1]) return {RunOp::square, -1};
    const int place = call.in[0] == from ? 0 : 1;
    return {*run_op(step.op->name, place), call.in[static_cast<std::size_t>(1 - place)]};
  }

  // Index of an earlier call whose result only this one reads, or -1.
  int run_before(const std::vector<FusedSchedule::Call>& joined, const FusedSchedule::Call& call) {
    if (!can_run(call)) return -1;
    for (std::size_t c = joined.size(); c-- > 0;) {
      const auto& other = joined[c];
      const bool reads = other.out == call.in[0] || other.out == call.in[1];
      if (!reads || other.run.empty() || other.run.size() >= kMostRunSteps || value(other.out).output >= 0) continue;
      int readers = 0;
      for_readers(other.out, [&](int) { ++readers; });
      if (readers == 1 && !value(other.out).later) return static_cast<int>(c);
    }
    return -1;
  }

  // Turns a run of one step without gain back into a plain call; other runs take in a reduction of their result.
  void end_run(FusedSchedule::Call& call, const FusedSchedule::Sweep& sweep) {
    if (call.run.empty()) return;
    int readers = 0;
    for_readers(call.out, [&](int) { ++readers; });
    for (int f : sweep.folds) {
      auto& fold = made_.folds[static_cast<std::size_t>(f)];
      const auto& reduction = grid_.reductions[static_cast<std::size_t>(fold.reduction)];
      if (call.fold >= 0 || fold.in != call.out || fold.op == FoldOp::prod || !reduction.over_cols) continue;
      call.fold = f;
      fold.on_the_way = true;
      call.stores = value(call.out).output >= 0 || readers > 1;
    }
    if (call.run.size() == 1 && call.fold < 0) return call.run.clear();
    call.in = {call.in[0], -1, -1};
    call.run_fn = run_fn(type(call.out).dtype == DType::f64);
  }

  // Reuses temporaries once their value is no longer read; buffers keep a value for later sweeps.
  void give_slots() {
    for (int v = program_.operands; v < end(); ++v) {
      auto& of = value(v);
      if (of.storage == StorageClass::row) of.slot = of.output >= 0 ? -1 : made_.rows++;
      if (of.storage != StorageClass::temporary) continue;
      if (of.output >= 0) of.storage = StorageClass::output;
      if (of.output >= 0 || !of.later) continue;
      of.storage = StorageClass::buffer;
      of.slot = made_.buffers++;
    }
    for (const auto& sweep : made_.sweeps) give_temporaries(sweep);
  }

  void give_temporaries(const FusedSchedule::Sweep& sweep) {
    std::vector<int> free, last(made_.values.size(), -1);
    for (std::size_t c = 0; c < sweep.calls.size(); ++c) {
      for (std::size_t v = 0; v < last.size(); ++v) {
        if (sweep.calls[c].reads(static_cast<int>(v))) last[v] = static_cast<int>(c);
      }
    }
    for (int f : sweep.folds)
      last[static_cast<std::size_t>(made_.folds[static_cast<std::size_t>(f)].in)] = std::numeric_limits<int>::max();
    int used = 0;
    for (std::size_t c = 0; c < sweep.calls.size(); ++c) {
      auto& of = value(sweep.calls[c].out);
      if (of.storage == StorageClass::temporary) {
        if (free.empty()) free.push_back(used++);
        of.slot = free.back();
        free.pop_back();
      }
      // Temporaries read for the last time here may be overwritten by the next call.
      for (std::size_t v = 0; v < last.size(); ++v) {
        if (last[v] == static_cast<int>(c) && made_.values[v].storage == StorageClass::temporary)
          free.push_back(made_.values[v].slot);
      }
    }
    made_.temporaries = std::max(made_.temporaries, used);
  }

  const FusedProgram& program_;
  const FusedGrid& grid_;
  const std::vector<TensorType>& types_;
  std::vector<bool> below_;
  std::vector<int> sweep_;
  Shape whole_;
  FusedSchedule made_;
};

}  // namespace

bool FusedSchedule::Call::reads(int value) const {
  const auto reads_it = [&](const Step& step) { return step.operand == value; };
  return std::find(in.begin(), in.end(), value) != in.end() || std::any_of(run.begin(), run.end(), reads_it);
}

bool FusedSchedule::has_row_calls() const {
  return std::any_of(sweeps.begin(), sweeps.end(), [](const Sweep& sweep) { return !sweep.row_calls.empty(); });
}

std::optional<FusedSchedule> fused_schedule(const FusedProgram& program, const FusedGrid& grid,
                                            const std::vector<TensorType>& types) {
  return Scheduler(program, grid, types).run();
}

}  // namespace starling::kernels
