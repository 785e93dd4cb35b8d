#include "starling/ops/def/attrs/fused.h"

#include <map>
#include <set>

#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {
namespace {

using cuda::Chain;
using cuda::Fold;
using cuda::Pointer;

Fold fold_of(const OpDef& op) {
  return op.name == "mean"   ? Fold::mean
         : op.name == "prod" ? Fold::prod
         : op.name == "max"  ? Fold::max
         : op.name == "min"  ? Fold::min
                             : Fold::sum;
}

// Plan of a program: every reduction is a kernel that computes the chain before it and leaves its results in scratch;
// then one kernel per shape writes the outputs of that shape. Values between are computed again where they are needed.
class FusedPlanner {
 public:
  explicit FusedPlanner(const PlanRequest& request)
      : request_(request), program_(fused_program(request.attrs.as<op::FusedAttrs>().program)) {
    // Operands may be stored narrower than they are typed: everything between is f32, and results convert.
    for (const auto& in : request.in) given_.push_back({is_half(in.dtype) ? DType::f32 : in.dtype, in.shape});
    types_ = program_.infer(given_);
    below_ = program_.reduced();
    whole_ = fused_shape(given_);
  }

  // Null if a step has no expression: such a chain cannot run on this device, and the planner reports that.
  std::unique_ptr<Plan> plan() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if (program_.steps[s].reduces() && !reduce(program_.operands + static_cast<int>(s))) return nullptr;
    }
    std::map<std::int64_t, std::vector<std::size_t>> by_size;  // outputs by their number of elements, few first
    for (std::size_t o = 0; o < program_.outputs.size(); ++o)
      by_size[shape_of(program_.outputs[o]).numel()].push_back(o);
    for (const auto& [size, outputs] : by_size) {
      std::map<std::vector<std::int64_t>, std::vector<std::size_t>> by_shape;
      for (std::size_t o : outputs) {
        const Shape shape = shape_of(program_.outputs[o]), &strides = request_.out[o].strides;
        std::vector<std::int64_t> key{shape.begin(), shape.end()};
        key.insert(key.end(), strides.begin(), strides.end());
        by_shape[std::move(key)].push_back(o);
      }
      for (const auto& [shape, alike] : by_shape) {
        if (!write(alike)) return nullptr;
      }
    }
    return cuda::plan_stages(std::move(stages_), scratch_);
  }

 private:
  Shape shape_of(int value) const {
    return below_[static_cast<std::size_t>(value)] ? types_[static_cast<std::size_t>(value)].shape : whole_;
  }
  bool is_leaf(int value) const { return !program_.is_step(value) || kept_.contains(value); }

  void collect(int value, std::set<int>& needed) const {
    if (!needed.insert(value).second || is_leaf(value)) return;
    for (int in : program_.step(value).in) collect(in, needed);
  }

  // Chain over `shape` of these values, and the pointers of its operands; false without an expression or a C type.
  bool chain_of(const std::vector<int>& wanted, const Shape& shape, Chain& chain,
                std::vector<Pointer>& pointers) const {
    std::set<int> needed;
    for (int value : wanted) collect(value, needed);
    std::map<int, int> number;
    chain.shape = shape;
    for (int value : needed) {
      if (!is_leaf(value)) continue;
      const auto at = static_cast<std::size_t>(value);
      const bool given = !program_.is_step(value);
      const Shape& own = types_[at].shape;
      const Shape strides = given ? request_.in[at].strides : contiguous_strides(own);
      number[value] = static_cast<int>(chain.operands.size());
      const DType dtype = given ? request_.in[at].dtype : types_[at].dtype;
      chain.operands.push_back({dtype, broadcast_strides(own, strides, shape)});
      pointers.push_back(given ? Pointer{Pointer::Of::in, at} : Pointer{Pointer::Of::scratch, kept_.at(value)});
    }
    for (int value : needed) {
      if (is_leaf(value)) continue;
      const FusedStep& step = program_.step(value);
      Chain::Step made{"a", {}, types_[static_cast<std::size_t>(value)].dtype, {}};
      for (int in : step.in) made.in.push_back(number.at(in));
      if (!step.stretches()) {
        const DType last = types_[static_cast<std::size_t>(step.in.back())].dtype;
        const std::string* expression = cuda::elementwise_expression(step.op->name, last);
        if (!expression) return false;
        made.expression = *expression;
        made.attributes = step.attributes;
      }
      number[value] = static_cast<int>(chain.operands.size() + chain.steps.size());
      chain.steps.push_back(std::move(made));
    }
    for (int value : wanted) chain.outputs.push_back(number.at(value));
    return cuda::has_types(chain);
  }

  bool reduce(int value) {
    const FusedStep& step = program_.step(value);
    cuda::ChainFold fold{{}, step.axes(), fold_of(*step.op)};
    std::vector<Pointer> pointers;
    if (!chain_of(step.in, shape_of(step.in[0]), fold.chain, pointers)) return false;
    // A reduction of an operand that is stored narrower than it is typed leaves f32 in scratch, as it will be read.
    fold.chain.outputs[0] =
        stored_as(fold.chain, fold.chain.outputs[0], types_[static_cast<std::size_t>(step.in[0])].dtype);
    if (fold.axes.empty()) {
      for (int d = 0; d < fold.chain.shape.rank(); ++d) fold.axes.push_back(d);
    }
    pointers.push_back({Pointer::Of::scratch, scratch_});
    const auto& type = types_[static_cast<std::size_t>(value)];
    kept_[value] = scratch_;
    scratch_ += (bytes_of(type) + 255) / 256 * 256;
    cuda::add_fold(stages_, scratch_, std::move(fold), std::move(pointers));
    return true;
  }

  bool write(const std::vector<std::size_t>& outputs) {
    std::vector<int> wanted;
    for (std::size_t o : outputs) wanted.push_back(program_.outputs[o]);
    Chain chain;
    std::vector<Pointer> pointers;
    if (!chain_of(wanted, shape_of(wanted[0]), chain, pointers)) return false;
    for (std::size_t o : outputs) pointers.push_back({Pointer::Of::out, o});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      chain.outputs[i] = stored_as(chain, chain.outputs[i], request_.out[outputs[i]].dtype);
    const ArgDesc& out = request_.out[outputs[0]];
    if (out.shape == chain.shape) chain = in_order_of(std::move(chain), out.strides);
    stages_.push_back(cuda::chain_stage(chain, std::move(pointers)));
    return true;
  }

  // The value, converted to the dtype of a result if it has another.
  static int stored_as(Chain& chain, int value, DType dtype) {
    const auto i = static_cast<std::size_t>(value);
    const DType own =
        i < chain.operands.size() ? chain.operands[i].dtype : chain.steps[i - chain.operands.size()].dtype;
    if (own == dtype) return value;
    chain.steps.push_back({"a", {value}, dtype, {}});
    return static_cast<int>(chain.operands.size() + chain.steps.size()) - 1;
  }

  const PlanRequest& request_;
  const FusedProgram& program_;
  std::vector<TensorType> given_, types_;
  std::vector<bool> below_;
  Shape whole_;
  std::map<int, std::size_t> kept_;  // offsets in scratch of reductions' results
  std::size_t scratch_ = 0;
  std::vector<cuda::Stage> stages_;
};

std::unique_ptr<Plan> plan_fused(const PlanRequest& request) { return FusedPlanner(request).plan(); }

}  // namespace

void register_cuda_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_fused});
  cuda::add_storable("fused", cuda::converts());
}

}  // namespace starling::kernels
