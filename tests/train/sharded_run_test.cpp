// Runs whose ranks store pieces: nobody ever holds the whole, from the first number drawn to the exported model, and
// what comes of it is what a single process makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "starling/dist/strategy/local_sgd.h"
#include "starling/nn/deferred_weights.h"
#include "starling/ops/api/creation.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/without_memory.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/job/job_layout.h"
#include "starling/train/job/job_run.h"
#include "starling/train/ranks/link.h"
#include "starling/train/run/copy_tensors.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/saved_model/saved_model.h"
#include "train/pieces_testing.h"

namespace starling::train {
namespace {

using testing::Keep;
using testing::Outcome;
using testing::points;
using testing::Recipe;
using testing::splits;

std::shared_ptr<Comm> borrowed(Comm& comm) {
  return {&comm, [](Comm*) {}};
}

std::int64_t bytes_of_weights(const nn::Module& net) {
  std::int64_t bytes = 0;
  for (const auto& parameter : net.parameters()) bytes += static_cast<std::int64_t>(bytes_of(parameter));
  return bytes;
}

std::int64_t largest_of(const nn::Module& net) {
  std::int64_t most = 0;
  for (const auto& parameter : net.parameters()) most = std::max(most, static_cast<std::int64_t>(bytes_of(parameter)));
  return most;
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class ShardedRuns : public ::testing::Test {
 protected:
  Job job(const std::string& model, std::vector<std::string> set) const {
    const auto text = data_.path() / "text.txt";
    std::ofstream(text) << std::string(200, 'a') + "The quick brown fox jumps over the lazy dog. " +
                               std::string(99, 'b');
    const std::string yaml = "model: " + model + "\ndata: {name: text, files: [" + text.string() +
                             "], tokens: characters, window: 16, batch: 4}\noptimizer: {name: adam, lr: 0.001}\n"
                             "train: {epochs: 1, steps: 3, seed: 7, save_memory: 0}\nmonitor: {tensorboard: false}\n";
    set.push_back("train.folder=" + (data_.path() / "run").string());
    return read_job(ConfigNode::parse(yaml, "job.yaml", set));
  }

  testing::TestFolder data_{"sharded-runs"};
};

struct Start {
  std::vector<std::string> hashes;  // by rank, of the whole weights put together
  std::int64_t stored = 0;          // bytes of weights that all ranks store
  std::int64_t most = 0;            // that the allocator gave out meanwhile
};

// The networks of all ranks of a job, made in pieces or, `whole`, as one process makes them.
Start start_of(const Job& job, int ranks, bool whole) {
  Start start{.hashes = std::vector<std::string>(static_cast<std::size_t>(ranks))};
  const JobData data = load_job_data(job);
  std::atomic<std::int64_t> stored = 0;
  std::int64_t before = 0;
  run_ranks(make_thread_comms(ranks), [&](Comm& comm) {
    const auto strategy = job.distribute.strategy.make()(borrowed(comm));
    comm.barrier().wait();
    if (comm.rank() == 0) {
      allocator(kCpu).reset_peak();
      before = allocator(kCpu).stats().live_bytes;
    }
    comm.barrier().wait();
    std::optional<nn::DeferredWeights> deferred;
    if (!whole) deferred.emplace();
    const PreparedJob prepared = prepare_job(job, data);
    if (deferred) make_weights(prepared, *deferred, *strategy);
    comm.barrier().wait();
    if (comm.rank() == 0) start.most = allocator(kCpu).stats().peak_bytes - before;
    comm.barrier().wait();
    dist::TrainedState state;
    for (auto& [name, tensor] : prepared.net->named_parameters()) state.weights.push_back({name, tensor});
    strategy->begin(state);
    for (const auto& [name, tensor] : state.weights) {
      const dist::ShardedState* sharded = strategy->sharded();
      stored += static_cast<std::int64_t>(bytes_of(sharded ? sharded->local(tensor) : tensor));
    }
    strategy->show();
    start.hashes[static_cast<std::size_t>(comm.rank())] = testing::hash_of(*prepared.net);
    comm.barrier().wait();
  });
  start.stored = stored;
  return start;
}

const char* const kGpt = "{name: gpt, width: 96, depth: 2, heads: 12, tokens: 16}";

// Blocks of the allocator are up to an eighth larger than what they hold.
TEST_F(ShardedRuns, BeginWithTheNumbersOfOneProcessAndNeverHoldMoreThanTheirPieces) {
  const PreparedJob alone = prepare_job(job(kGpt, {}));
  const std::string hash = testing::hash_of(*alone.net);
  const std::int64_t whole = bytes_of_weights(*alone.net);
  struct Setting {
    int ranks;
    const char* distribute;
  };
  for (const auto& [ranks, distribute] :
       {Setting{1, "{workers: 1, zero: 3}"}, Setting{2, "{workers: 2, zero: 3}"}, Setting{3, "{workers: 3, zero: 3}"},
        Setting{4, "{workers: 4, zero: 3}"}, Setting{2, "{mesh: {model: 2}, layout: megatron}"},
        Setting{3, "{mesh: {model: 3}, layout: megatron}"},
        Setting{4, "{mesh: {data: 2, model: 2}, layout: megatron, zero: 3}"}}) {
    SCOPED_TRACE(distribute);
    const Job split = job(kGpt, {std::string("distribute=") + distribute});
    const Start pieces = start_of(split, ranks, false);
    for (const std::string& one : pieces.hashes) EXPECT_EQ(one, hash);
    EXPECT_LE(pieces.most, pieces.stored * 9 / 8 + largest_of(*alone.net));
    EXPECT_LT(pieces.stored, whole * (ranks + 5) / 5) << "vectors are on all ranks";
    EXPECT_GE(start_of(split, ranks, true).most, ranks * whole) << "the control: made whole";
  }
}

nn::Sequential wide_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("in", nn::Linear({.in = 8, .out = 256})).add("relu", nn::Relu());
  for (int i = 0; i < 8; ++i)
    net.add(fmt::format("fc{}", i), nn::Linear({.in = 256, .out = 256})).add(fmt::format("tanh{}", i), nn::Tanh());
  net.add("out", nn::Linear({.in = 256, .out = 4}));
  return net;
}

// Evaluates after the first step, and tells what memory that took on top of what was there.
class MeasureEvaluation final : public Callback {
 public:
  MeasureEvaluation(Evaluation& found, std::int64_t& evaluated, std::int64_t& shown)
      : found_(found), evaluated_(evaluated), shown_(shown) {}
  std::string name() const override { return "measure"; }
  void step(starling::Run& run) override {
    evaluated_ = most_of(run, [&] { found_ = run.evaluate(); });
    if (run.link() == nullptr) return;
    shown_ = most_of(run, [&] { run.link()->strategy().show(); });
    run.link()->strategy().unshow();
  }

 private:
  template <class Body>
  static std::int64_t most_of(starling::Run& run, const Body& body) {
    const auto meet = [&] {
      if (run.link() != nullptr) run.link()->meet();
    };
    meet();
    allocator(kCpu).reset_peak();
    const std::int64_t before = allocator(kCpu).stats().live_bytes;
    meet();
    body();
    meet();
    const std::int64_t most = allocator(kCpu).stats().peak_bytes - before;
    meet();
    return most;
  }

  Evaluation& found_;
  std::int64_t &evaluated_, &shown_;
};

TEST_F(ShardedRuns, EvaluateAsOneProcessWithoutHoldingTheWhole) {
  const auto evaluated = [](Recipe recipe, std::int64_t batch, std::int64_t& most, std::int64_t& shown) {
    std::vector<Evaluation> found(static_cast<std::size_t>(recipe.ranks));
    std::vector<std::int64_t> mosts(found.size()), showns(found.size());
    recipe.net = wide_net;
    recipe.options.steps = 1;
    recipe.options.evaluate_batch = batch;
    recipe.metrics = {"accuracy", "loss", "f1"};
    recipe.add = [&](Trainer& trainer, int rank) {
      const auto at = static_cast<std::size_t>(rank);
      trainer.add(std::make_shared<MeasureEvaluation>(found[at], mosts[at], showns[at]));
    };
    recipe.run();
    for (const Evaluation& one : found) EXPECT_EQ(one.metrics, found[0].metrics);
    most = mosts[0], shown = showns[0];
    return found[0];
  };
  std::int64_t most = 0, shown = 0;
  const Evaluation alone = evaluated({}, 10, most, shown);
  const std::int64_t whole = bytes_of_weights(wide_net());
  const dist::LayoutChoice rows = {.rules = {{"fc*", "model", "columns"}}};
  const std::vector<Recipe> settings = {{.ranks = 4, .zero = 3},
                                        {.ranks = 4, .mesh = {{{"model", 4}}}, .layout = rows},
                                        {.ranks = 4, .zero = 3, .mesh = {{{"data", 2}, {"model", 2}}}, .layout = rows}};
  for (const Recipe& recipe : settings) {
    SCOPED_TRACE(fmt::format("zero {}, {} axes", recipe.zero, recipe.mesh.axes.size()));
    for (const std::int64_t batch : {13, 10}) {  // of 40 samples: the last batch of 13 has one row, for one rank
      const Evaluation some = evaluated(recipe, batch, most, shown);
      EXPECT_EQ(some.samples, 40);
      for (const auto& [name, value] : alone.metrics) EXPECT_NEAR(some.metrics.at(name), value, 1e-5) << name;
      EXPECT_EQ(some.tables.size(), alone.tables.size());
    }
    EXPECT_LT(most, shown / 2) << "activations and at most two gathered buckets on each";
    EXPECT_GE(shown, 4 * whole * 3 / 4) << "the control: all ranks hold all weights";
  }
}

TEST_F(ShardedRuns, TellTheHashExportAndKeepTheBestWithoutTheWhole) {
  for (const char* distribute : {"{workers: 2, zero: 3}", "{mesh: {model: 2}, layout: megatron}"}) {
    SCOPED_TRACE(distribute);
    data_.clear();
    TrainOptions quiet;
    quiet.progress.mode = ProgressMode::off;
    const Job split = job(kGpt, {std::string("distribute=") + distribute, "train.best=loss",
                                 "train.early_stop={metric: loss, patience: 1}", "distribute.threads=1"});
    const TrainResult result = run_job(split, quiet);
    ASSERT_TRUE(result.model_error.empty()) << result.model_error;
    const PreparedJob one = prepare_job(split);
    for (const char* which : {"latest", "best"}) {
      load_weights(*one.net, load_run_checkpoint(split.train.folder, which).value());
      EXPECT_EQ(testing::hash_of(*one.net), result.summary.weights_hash) << which;
    }
    SavedModel model = SavedModel::load(result.model).value();
    std::vector<NamedTensor> weights;
    for (auto& [name, tensor] : one.net->named_parameters()) weights.push_back({name, tensor});
    for (const auto& [name, tensor] : model.weights()) {
      const auto found = std::find_if(weights.begin(), weights.end(), [&](const auto& w) { return w.name == name; });
      if (found == weights.end()) continue;
      EXPECT_EQ(tensor.to_vector(), found->tensor.to_vector()) << name;
    }
    EXPECT_GE(std::ssize(model.weights()), std::ssize(weights));
  }
}

TEST_F(ShardedRuns, ReplicasOfPiecesAreCompared) {
  const auto spoiled = [](std::int64_t hash_every) {
    Recipe recipe{.ranks = 4,
                  .mesh = {{{"data", 2}, {"model", 2}}},
                  .layout = {.rules = {{"fc1", "model", "columns"}}},
                  .options = {.epochs = 1, .batch = 13}};
    recipe.options.steps = 3;
    recipe.options.hash_every = hash_every;
    recipe.add = [](Trainer& trainer, int rank) {
      trainer.add(after_step([rank](starling::Run& run) {
        const Tensor* piece = run.link()->strategy().sharded()->piece(run.net().parameters()[0]);
        if (rank == 3) piece->data<float>()[5] += 0.5F;
      }));
    };
    return failure_of([&] { recipe.run(); });
  };
  EXPECT_NE(spoiled(1).find("the same piece of 'fc1.weight' on ranks 1 and 3 after step 1"), std::string::npos)
      << spoiled(1);
  EXPECT_EQ(spoiled(0), "");
}

TEST_F(ShardedRuns, RanksWithAnotherJobAreNamed) {
  const auto told = [](std::int64_t seed) {
    return failure_of([&] {
      run_ranks(make_thread_comms(3), [&](Comm& comm) {
        auto net = testing::uneven_net();
        optim::Adam optimizer(net.parameters(), {.lr = 0.01});
        TrainerOptions options = testing::quiet({.epochs = 1, .batch = 13});
        options.seed = comm.rank() == 2 ? seed : 1;
        options.strategy = allreduce(borrowed(comm));
        Trainer(net, optimizer, classify(), options).fit(splits(points(26)));
      });
    });
  };
  EXPECT_NE(told(4).find("expected the same job on all ranks, got seed = 1 on rank 0 and 4 on rank 2"),
            std::string::npos)
      << told(4);
  EXPECT_EQ(told(1), "");
}

// Each rank takes its rows out of what rank 0 reads, and holds no more of it than a few megabytes at a time.
TEST_F(ShardedRuns, ASharedCheckpointComesInPieces) {
  constexpr std::int64_t kRows = 3001, kColumns = 1100;
  Tensor saved = empty({kRows, kColumns}, DType::f32);
  for (std::int64_t i = 0; i < saved.numel(); ++i) saved.data<float>()[i] = static_cast<float>(i % 8191);
  const std::int64_t whole = saved.numel() * 4;
  std::int64_t most = 0;
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    RankLink link(allreduce(borrowed(comm)));
    Layout columns = Layout::split(1);
    columns.blocks = 2;
    dist::ShardedState sharded(MeshShape({{"model", 3}}), comm.rank());
    const Tensor handle = without_memory(saved.type());
    sharded.make(handle, {{"model", columns}}, [](const dist::Region&, const Tensor&) {});
    const Tensor vector = zeros({5});
    link.meet();
    allocator(kCpu).reset_peak();
    const std::int64_t before = allocator(kCpu).stats().live_bytes;
    link.meet();
    std::optional<Checkpoint> own;
    if (link.leads()) own = Checkpoint{.step = 3, .tensors = {{"vector", full({5}, 2)}, {"w", saved}}, .extra = {}};
    const auto got = link.share(std::move(own));
    copy_tensors(*got, {{"w", handle}, {"vector", vector}}, "test", &sharded);
    link.meet();
    if (link.leads()) most = allocator(kCpu).stats().peak_bytes - before;
    EXPECT_EQ(vector.to_vector(), std::vector<double>(5, 2.0));
    const Tensor* piece = sharded.piece(handle);
    sharded.region(handle, comm.rank()).each([&](const dist::Region::Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i)
        ASSERT_EQ(piece->data<float>()[run.part + i], saved.data<float>()[run.whole + i]);
    });
    link.meet();
  });
  EXPECT_LT(most, whole / 10);
}

using MakeStrategy = std::function<std::shared_ptr<dist::RankStrategy>(std::shared_ptr<Comm>)>;

struct Way {
  const char* name;
  int ranks;
  MakeStrategy strategy;
};

Way on_mesh(const char* name, int ranks, const AllReduceOptions& options) {
  return {name, ranks, [options](std::shared_ptr<Comm> comm) { return allreduce(std::move(comm), options); }};
}

// Logical tensors are those of the other strategy's checkpoint, bit for bit, and the next twenty losses are those of
// one process that goes on from the same checkpoint, or of local SGD that goes on from one process's.
TEST_F(ShardedRuns, ResumeFromCheckpointsOfOtherStrategies) {
  const dist::LayoutChoice layout = {.rules = {{"fc1", "model", "columns"}, {"fc2", "model", "rows"}}};
  const Way alone{"one process", 1, {}};
  const Way local{"local_sgd", 2, [](std::shared_ptr<Comm> comm) -> std::shared_ptr<dist::RankStrategy> {
                    return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 2});
                  }};
  const Way mesh =
      on_mesh("data 2 x model 2, zero 1", 4, {.zero = 1, .mesh = {{{"data", 2}, {"model", 2}}}, .layout = layout});
  const Way zero = on_mesh("zero 3", 3, {.zero = 3});
  constexpr std::int64_t kSaved = 4, kMore = 20;
  const auto run = [&](const Way& way, const std::filesystem::path& folder, std::int64_t steps,
                       std::map<std::string, std::vector<double>>& state) {
    Recipe recipe{.ranks = way.ranks};
    recipe.strategy = way.strategy;
    recipe.options.folder = folder;
    recipe.options.epochs = 9;
    recipe.options.steps = steps;
    recipe.add = [&](Trainer& trainer, int) {
      trainer.add(checkpoints({.every_steps = 2}));
      trainer.add(std::make_shared<Keep>(state));
    };
    return recipe.run()[0].losses;
  };
  std::map<std::string, std::vector<double>> saved, loaded, unused;
  const auto continued = [&](const char* copy, const Way& by) {
    const auto folder = data_.path() / copy;
    std::filesystem::copy(data_.path() / "run", folder, std::filesystem::copy_options::recursive);
    run(by, folder, kSaved, loaded);
    return run(by, folder, kSaved + kMore, unused);
  };
  const std::vector<std::pair<Way, Way>> pairs = {{local, mesh}, {local, zero}, {mesh, local}, {zero, local}};
  for (const auto& [from, to] : pairs) {
    SCOPED_TRACE(fmt::format("{} to {}", from.name, to.name));
    data_.clear();
    run(from, data_.path() / "run", kSaved, saved);
    const std::vector<double> losses = continued("copy", to);
    int compared = 0;
    for (const auto& [name, values] : saved) {
      if (name.starts_with("rank.")) continue;
      EXPECT_EQ(loaded.at(name), values) << name;
      ++compared;
    }
    EXPECT_GE(compared, 6 * 3) << "weights and two moments of each";
    const bool to_local = to.name == local.name;
    if (to_local) {
      data_.clear();
      run(alone, data_.path() / "run", kSaved, saved);
    }
    const std::vector<double> expected = continued("expected", to_local ? to : alone);
    ASSERT_EQ(losses.size(), static_cast<std::size_t>(kMore));
    ASSERT_EQ(expected.size(), losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-3) << i;
    EXPECT_NE(losses.front(), losses.back());
  }
}

// Of a deterministic run the bits are the same whatever the ranks along `data`, also where it goes on with others.
TEST_F(ShardedRuns, DeterministicMeshesGoOnToTheSameBits) {
  const dist::LayoutChoice layout = {.rules = {{"fc1", "model", "columns"}, {"fc2", "model", "rows"}}};
  const auto run = [&](int data, const char* folder, std::int64_t steps, bool deterministic) {
    Recipe recipe{.ranks = 2 * data};
    recipe.strategy =
        on_mesh("", 2 * data,
                {.deterministic = deterministic, .mesh = {{{"data", data}, {"model", 2}}}, .layout = layout})
            .strategy;
    recipe.options.folder = data_.path() / folder;
    recipe.options.epochs = 9;
    recipe.options.steps = steps;
    recipe.add = [](Trainer& trainer, int) { trainer.add(checkpoints({.every_steps = 2})); };
    return recipe.run()[0].result.summary.weights_hash;
  };
  const std::string undisturbed = run(1, "undisturbed", 6, true);
  run(2, "resumed", 2, true);
  run(1, "resumed", 4, true);
  EXPECT_EQ(run(3, "resumed", 6, true), undisturbed);
  run(2, "free", 2, false);
  EXPECT_NE(run(1, "free", 6, false), undisturbed) << "the control: rows are added in another order";
}

// Logical shards are added in their order by whoever stores the piece: with `deterministic` the bits of a run are those
// of any number of ranks and any level of `zero`, also where it goes on with others. Control: without the mode they are
// those of the ranks.
TEST_F(ShardedRuns, DeterministicRunsHaveOneHashForAnyLevelAndRanks) {
  const auto run = [&](int ranks, int zero, const char* folder, std::int64_t steps, bool deterministic = true) {
    Recipe recipe{.ranks = ranks};
    recipe.strategy = [=](std::shared_ptr<Comm> comm) {
      return allreduce(std::move(comm), {.deterministic = deterministic, .zero = zero});
    };
    recipe.options.folder = data_.path() / folder;
    recipe.options.epochs = 9;
    recipe.options.steps = steps;
    recipe.options.accumulate = 2;
    recipe.options.clip_norm = 0.5;
    recipe.add = [](Trainer& trainer, int) { trainer.add(checkpoints({.every_steps = 2})); };
    return recipe.run()[0].result.summary.weights_hash;
  };
  const std::string undisturbed = run(2, 0, "undisturbed", 6);
  for (const auto& [ranks, zero] : {std::pair{2, 1}, {3, 2}, {2, 3}, {4, 3}})
    EXPECT_EQ(run(ranks, zero, fmt::format("{}-{}", ranks, zero).c_str(), 6), undisturbed) << ranks << " " << zero;
  run(2, 3, "resumed", 2);
  run(3, 0, "resumed", 4);
  EXPECT_EQ(run(4, 1, "resumed", 6), undisturbed);
  EXPECT_NE(run(2, 1, "free-2", 6, false), run(3, 1, "free-3", 6, false));
}

// Sums of shards go to the owners of the pieces alone: rows by all-to-all, and no gradient is added whole. Control:
// without pieces they are.
TEST_F(ShardedRuns, ShardsAreAddedWhereTheirPiecesAreStored) {
  const auto sent = [](int zero) {
    std::map<CommOp, std::uint64_t> bytes;
    const auto comms = make_thread_comms(2, {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      Recipe recipe{.ranks = 2};
      recipe.options.steps = 3;
      recipe.strategy = [=](std::shared_ptr<Comm> of) {
        return allreduce(std::move(of), {.deterministic = true, .shards = 4, .zero = zero});
      };
      recipe.train(&comm);
    });
    for (const CommOp op : {CommOp::sum_shards, CommOp::all_to_all})
      bytes[op] = comms[0]->journal().counters(op).bytes_sent;
    return bytes;
  };
  auto whole = sent(0), pieces = sent(1);
  EXPECT_EQ(whole[CommOp::all_to_all], 0U);
  EXPECT_GT(pieces[CommOp::all_to_all], 0U);
  EXPECT_LT(pieces[CommOp::sum_shards], whole[CommOp::sum_shards] / 2) << "vectors and the loss are left";
}

}  // namespace
}  // namespace starling::train
