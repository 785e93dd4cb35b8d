#include "starling/dist/strategy/data_parallel.h"

#include <map>
#include <thread>

#include "starling/base/error.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/strategy/programs/rank_program.h"
#include "starling/runtime/execution/lane_thread.h"

namespace starling {

// Replicated variables of ranks 1…, refreshed when an original was modified from outside.
struct DataParallel::Replicas {
  struct Copies {
    Tensor original;
    std::uint32_t version = 0;   // version of the original that the copies equal
    std::vector<Tensor> copies;  // index 0 is rank 1
  };
  std::map<const TensorImpl*, Copies> by_original;

  Container of_rank(int rank, const Container& originals, int world) {
    Container own;
    for (const auto& [name, tensor] : originals.entries()) {
      Copies& entry = by_original[tensor.impl()];
      if (!entry.original.defined()) entry = {tensor, tensor.impl()->storage->version(), {}};
      while (static_cast<int>(entry.copies.size()) < world - 1) {
        Tensor copy = copied(tensor);
        copy.set_name(name);
        entry.copies.push_back(copy);
      }
      own.set(name, entry.copies[static_cast<std::size_t>(rank - 1)]);
    }
    return own;
  }

  void refresh() {
    for (auto& [impl, entry] : by_original) {
      const auto version = entry.original.impl()->storage->version();
      if (version == entry.version) continue;
      for (const auto& copy : entry.copies) copy_into(copy, entry.original);
      entry.version = version;
    }
  }

  // Records the originals' versions after a step, in which every rank has made the same changes.
  void agree() {
    for (auto& [impl, entry] : by_original) entry.version = entry.original.impl()->storage->version();
  }
};

namespace {

struct Rank {
  std::unique_ptr<Comm> comm;
  std::unique_ptr<dist::RankProgram> program;
  std::unique_ptr<runtime::LaneThread> thread;  // null for rank 0
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

Tensor rows(const Tensor& tensor, const Piece& piece) {
  Shape shape = tensor.shape();
  shape[0] = piece.size;
  return view_of(tensor, shape, tensor.strides(), piece.begin * tensor.strides()[0]);
}

// Programs of all ranks, each on its own thread, called with global tensors.
class DataParallelProgram final : public runtime::Program {
 public:
  using Refresh = std::function<void()>;

  DataParallelProgram(std::vector<Rank> ranks, Refresh before, Refresh after)
      : ranks_(std::move(ranks)), before_(std::move(before)), after_(std::move(after)) {
    for (std::size_t r = 1; r < ranks_.size(); ++r)
      ranks_[r].thread = std::make_unique<runtime::LaneThread>([this, r] { run_rank(r); });
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    before_();
    for (std::size_t r = 0; r < ranks_.size(); ++r) share_out(r, inputs, outputs);
    for (std::size_t r = 1; r < ranks_.size(); ++r) ranks_[r].thread->start();
    std::exception_ptr error;
    const auto keep_first = [&](auto&& step) {
      try {
        step();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    };
    keep_first([&] { run_rank(0); });
    for (std::size_t r = 1; r < ranks_.size(); ++r) keep_first([&] { ranks_[r].thread->finish(); });
    if (error) std::rethrow_exception(error);
    after_();
  }

  const graph::Graph& graph() const override { return first().graph(); }

  std::string explain() const override {
    const std::string shards =
        first().shards() > 0 ? fmt::format(", deterministic with {} logical shards", first().shards()) : "";
    return fmt::format("data parallel over {} thread ranks{}\n", ranks_.size(), shards) +
           runtime::describe(first().reports()) + first().executable().explain();
  }

  std::vector<graph::PassReport> reports() const override { return first().reports(); }

  void set_profiler(Profiler* profiler) override {
    for (auto& rank : ranks_) rank.program->instance().set_profiler(profiler);
  }

  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& rank : ranks_) bytes += rank.program->instance().memory_bytes();
    return bytes;
  }

 private:
  const dist::RankProgram& first() const { return *ranks_[0].program; }
  void run_rank(std::size_t r) { ranks_[r].program->run(ranks_[r].inputs, ranks_[r].outputs); }

  // Gives a rank views of the global tensors, without copies.
  void share_out(std::size_t r, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    Rank& rank = ranks_[r];
    const dist::RankProgram& program = *rank.program;
    rank.inputs.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      rank.inputs.push_back(program.splits_input(i) ? rows(inputs[i], program.rows(inputs[i].shape()[0])) : inputs[i]);
    if (rank.outputs.empty()) rank.outputs.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (program.splits_output(i)) {
        rank.outputs[i] = rows(outputs[i], program.rows(outputs[i].shape()[0]));
      } else if (r == 0) {
        rank.outputs[i] = outputs[i];
      } else if (!rank.outputs[i].defined()) {
        rank.outputs[i] = empty(outputs[i].shape(), outputs[i].dtype(), outputs[i].device());
      }
    }
  }

  std::vector<Rank> ranks_;
  Refresh before_, after_;
};

std::vector<std::unique_ptr<Comm>> make_comms(const DataParallelOptions& options) {
  auto comms = make_thread_comms(options.workers);
  std::vector<std::unique_ptr<Comm>> wrapped(comms.size());
  std::vector<std::exception_ptr> errors(comms.size());
  std::vector<std::thread> threads;
  // Wrapping in checks is collective, so each rank does it on a thread.
  for (std::size_t r = 0; r < comms.size(); ++r) {
    threads.push_back(make_thread({.rank = static_cast<int>(r)}, [&, r] {
      try {
        auto comm = options.decorate ? options.decorate(std::move(comms[r])) : std::move(comms[r]);
        wrapped[r] = options.checked ? dist::make_checking(std::move(comm)) : std::move(comm);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    }));
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return wrapped;
}

}  // namespace

DataParallel::DataParallel(DataParallelOptions options)
    : options_(std::move(options)), replicas_(std::make_shared<Replicas>()) {
  check(options_.workers >= 1 && options_.workers <= 256, "[data_parallel] expected 1 to 256 workers, got {}",
        options_.workers);
  check(!options_.deterministic || options_.shards >= options_.workers,
        "[data_parallel] expected at least as many logical shards as workers, got {} for {}", options_.shards,
        options_.workers);
}

DataParallel::~DataParallel() = default;

std::shared_ptr<runtime::Strategy> DataParallel::parts() const {
  if (options_.deterministic) return nullptr;
  auto parts = std::make_shared<DataParallel>(*this);
  parts->local_gradients_ = true;
  return parts;
}

std::string DataParallel::name() const {
  return fmt::format("data_parallel({} thread ranks{})", options_.workers,
                     options_.deterministic ? ", deterministic" : "");
}

std::unique_ptr<runtime::Program> DataParallel::build(const graph::Graph& global, const Container& container,
                                                      const runtime::BuildOptions& options) {
  check(!options.world.comm, "[data_parallel] expected a function without a world, as its ranks are threads, got one");
  runtime::BuildOptions build = options;
  build.program.threads =
      options_.deterministic ? 1 : dist::threads_each(options_.threads_per_worker, options_.workers, build.program);
  std::vector<Rank> ranks;
  for (auto& comm : make_comms(options_)) {
    const int r = comm->rank();
    const Container own = r == 0 ? container : replicas_->of_rank(r, container, options_.workers);
    const dist::RankProgramOptions part{.comm = comm.get(),
                                        .shards = options_.deterministic ? options_.shards : 0,
                                        .shard_order = options_.shard_order,
                                        .local_gradients = local_gradients_};
    Rank rank;
    rank.program = std::make_unique<dist::RankProgram>(global, own, build, part);
    rank.comm = std::move(comm);
    ranks.push_back(std::move(rank));
  }
  return std::make_unique<DataParallelProgram>(
      std::move(ranks), [replicas = replicas_] { replicas->refresh(); }, [replicas = replicas_] { replicas->agree(); });
}

}  // namespace starling
