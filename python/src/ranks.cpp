#include "ranks.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "define.h"
#include "described.h"
#include "interruptible.h"
#include "places.h"
#include "signals.h"
#include "starling/base/error.h"
#include "starling/base/hash/hash.h"
#include "starling/base/thread/as_rank.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/comm_scope.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/world.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/dist/strategy/servers/server_rule.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/nn/module.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/def/argument_error.h"
#include "starling/optim/optimizer.h"

namespace starling::python {
namespace {

// The world that this process has joined. Its collectives are those of the thread that joined.
struct Joined {
  pid_t owner = ::getpid();  // a process forked from it has none of its threads, and leaves the world to it
  World world;
  std::unique_ptr<CommScope> scope;
};
std::unique_ptr<Joined>& joined() {
  static std::unique_ptr<Joined> world;
  return world;
}

// A rank that is a thread of this process, for as long as its `with` block lasts.
struct ThreadRank {
  std::shared_ptr<Comm> comm;
  std::unique_ptr<CommScope> scope{};
  std::unique_ptr<AsRank> named{};
};
ThreadRank*& rank_of_thread() {
  thread_local ThreadRank* own = nullptr;
  return own;
}

void enter(ThreadRank& self) {
  check(!self.scope && !rank_of_thread(), "[dist] expected a thread that is no rank yet");
  self.scope = std::make_unique<CommScope>(*self.comm);
  self.named = std::make_unique<AsRank>(self.comm->rank());
  rank_of_thread() = &self;
}

// Ends the waits of all ranks; from any thread. A rank that has left ends none.
void abort(const ThreadRank& self, const std::string& why) {
  const std::shared_ptr<Comm> comm = self.comm;
  const nb::gil_scoped_release release;
  if (comm) comm->abort(why);
}

// Why: of what ended the block, so that the others, which would wait, end too; empty: it is done, and who waits for
// this rank from then on is told that it has left.
void leave(ThreadRank& self, const std::string& why) {
  if (!why.empty()) abort(self, why);
  rank_of_thread() = nullptr;
  self.named.reset();
  self.scope.reset();
  std::shared_ptr<Comm> last = std::move(self.comm);
  const nb::gil_scoped_release release;
  last.reset();
}

Joined& expect_joined() {
  check(joined() != nullptr, "[dist] expected a world to have been joined: call starling.dist.init() first");
  return *joined();
}

void join(const std::string& backend) {
  if (joined()) return;
  auto made = std::make_unique<Joined>();
  {
    const nb::gil_scoped_release release;
    // Python polls its own signals: Ctrl-C ends the wait for ranks that do not come.
    WorldOptions options{.backend = backend};
    SignalWatch signals;
    options.stop = [&signals] { return signals.arrived(); };
    try {
      made->world = join_world({}, options);
    } catch (const Error&) {
      signals.raise();
      throw;
    }
  }
  made->scope = std::make_unique<CommScope>(*made->world.comm);
  joined() = std::move(made);
}

std::vector<NamedTensor> named(const nn::NamedTensors& tensors) {
  std::vector<NamedTensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
  return list;
}

// First act of a trainer, before its first step: all ranks get rank 0's weights, and those of a layout become pieces.
nb::object begin(nb::object self, nb::object net, nb::object optimizer) {
  auto& strategy = nb::cast<PyStrategy&>(self);
  auto* const ranks = dynamic_cast<dist::RankStrategy*>(strategy.strategy.get());
  check(ranks != nullptr, "[dist] expected a strategy of several ranks, got {}", strategy.strategy->name());
  auto& module = expect_instance<nn::Module>(net, "[dist] expected a module as the network");
  const nb::object rule = nb::hasattr(optimizer, "base") ? nb::object(optimizer.attr("base")) : optimizer;
  auto& updates = expect_instance<optim::Optimizer>(rule, "[dist] expected an optimizer of starling.optim");
  without_gil([&] {
    ranks->begin({.weights = named(module.named_parameters()),
                  .buffers = named(module.named_buffers()),
                  .optimizer = named(updates.state()),
                  .rule = &updates});
  });
  if (strategy.begun) *strategy.begun = true;
  strategy.net = held(std::move(net));
  strategy.optimizer = held(rule);
  return self;
}

// Whether options of a strategy ask for state in pieces.
bool stores_pieces(const nlohmann::json& options) {
  const nlohmann::json zero = options.value("zero", nlohmann::json(0)),
                       layout = options.value("layout", nlohmann::json());
  return (zero.is_number() && zero > 0) || !(layout.is_null() || layout == "" || layout.empty());
}

}  // namespace

PyStrategy strategy_from(nb::handle given) {
  if (given.is_none()) return {};
  return expect_instance<PyStrategy>(given, "[compile] expected a strategy, such as starling.dist.allreduce()");
}

std::shared_ptr<Comm> world_comm() { return rank_of_thread() ? rank_of_thread()->comm : expect_joined().world.comm; }

Comm* comm_of_thread() {
  if (rank_of_thread()) return rank_of_thread()->comm.get();
  return joined() ? joined()->world.comm.get() : nullptr;
}

void expect_ready(const PyStrategy& strategy, std::span<const Tensor> arguments) {
  check(!strategy.begun || *strategy.begun,
        "[compile] expected strategy.begin(net, optimizer) before the first step: ranks of {} store pieces of them",
        strategy.strategy->name());
  const int ranks = strategy.comm->size();
  if (strategy.data_ranks() == ranks) return;
  Hash128 hash;
  for (const Tensor& argument : arguments) {
    const Tensor host = data::on_host(argument);
    hash.update(to_string(host.type()));
    hash.update(data::host_bytes(host));
  }
  struct Given {
    std::array<char, 32> rows{};
    std::int64_t data_rank = 0;
  };
  Given own{.data_rank = strategy.data_rank()};
  const std::string hex = hash.hex();
  std::copy_n(hex.begin(), own.rows.size(), own.rows.begin());
  std::vector<Given> all(static_cast<std::size_t>(ranks));
  strategy.comm->all_gather(&own, all.data(), sizeof(Given), DType::u8, {.name = "arguments"}).wait();
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b)
      check(all[a].data_rank != all[b].data_rank || all[a].rows == all[b].rows,
            "[compile] expected the same rows on ranks {} and {}, which share the model along the mesh, got others: "
            "loaders take rank=strategy.data_rank, ranks=strategy.data_ranks",
            b, a);
  }
}

std::int64_t rows_of_all(const PyStrategy& strategy, std::int64_t own) {
  std::int64_t total = 0;
  strategy.comm->all_reduce(&own, &total, 1, DType::i64, ReduceOp::sum, {.name = "rows of the batch"}).wait();
  return total / (strategy.comm->size() / strategy.data_ranks());
}

int PyStrategy::data_rank() const {
  const auto* ranks = dynamic_cast<const dist::RankStrategy*>(strategy.get());
  return ranks ? ranks->data_rank() : 0;
}

int PyStrategy::data_ranks() const {
  const auto* ranks = dynamic_cast<const dist::RankStrategy*>(strategy.get());
  return ranks ? ranks->data_ranks() : 1;
}

void bind_ranks(nb::module_& m) {
  nb::class_<PyStrategy>(m, "Strategy", "How a compiled function runs on several ranks.")
      .def("__repr__", [](const PyStrategy& self) { return "<strategy " + self.strategy->name() + ">"; })
      .def("begin", &begin, nb::arg("net"), nb::arg("optimizer"),
           "Gives all ranks rank 0's weights, and cuts those that a layout or zero splits; before the first step of a "
           "compiled function. A Trainer does so itself. Returns the strategy.")
      .def_prop_ro("data_rank", &PyStrategy::data_rank,
                   "Place of this rank among those that share out the rows: rank= of a Loader.")
      .def_prop_ro("data_ranks", &PyStrategy::data_ranks,
                   "Number of ranks that share out the rows: ranks= of a Loader.");
  m.def("_dist_init", &join, nb::arg("backend"));
  m.def("_dist_leave", [] {
    if (!joined()) return;
    if (joined()->owner != ::getpid()) return static_cast<void>(joined().release());
    joined()->scope.reset();
    const nb::gil_scoped_release release;
    joined().reset();
  });
  m.def(
      "_dist_failed",
      [](const std::string& why) {
        const nb::gil_scoped_release release;
        if (joined()) joined()->world.report_failure(why);
      },
      nb::arg("why"));
  m.def("_dist_joined", [] { return rank_of_thread() || joined() != nullptr; });
  m.def("_dist_rank", [] { return world_comm()->rank(); });
  m.def("_dist_size", [] { return world_comm()->size(); });
  m.def("_dist_backend", [] { return rank_of_thread() ? std::string("threads") : expect_joined().world.backend; });
  nb::class_<ThreadRank>(m, "ThreadRank", "A rank that is a thread: with rank: ...")
      .def("enter", &enter, "From here on this thread is the rank.")
      .def("leave", &leave, nb::arg("why"), "The thread is no rank any more; why: what went wrong, told to the others.")
      .def("abort", &abort, nb::arg("why"), "Ends the waits of all ranks.");
  m.def(
      "_dist_threads",
      [](int ranks) {
        nb::list all;
        for (auto& comm : make_thread_comms(ranks))
          all.append(nb::cast(ThreadRank{.comm = dist::make_checking(std::move(comm))}));
        return all;
      },
      nb::arg("ranks"));
  m.def(
      "all_reduce",
      [](const Arg& x, const std::string& reduce) {
        const auto known = parse_reduce_op(reduce);
        if (!known)
          throw ArgumentError(
              fmt::format("[all_reduce] expected sum, mean, max, min or product for reduce, got '{}'", reduce));
        return without_gil([&] { return all_reduce(x.tensor, {.reduce = *known}); });
      },
      nb::arg("x"), nb::arg("reduce") = "sum", "The reduction of every rank's x, on every rank.");
  m.def(
      "broadcast",
      [](const Arg& x, std::int64_t root) { return without_gil([&] { return broadcast(x.tensor, {.root = root}); }); },
      nb::arg("x"), nb::arg("root") = 0, "The root's x, on every rank.");
  m.def(
      "all_gather",
      [](const Arg& x, std::int64_t rows) { return without_gil([&] { return all_gather(x.tensor, {.rows = rows}); }); },
      nb::arg("x"), nb::arg("rows") = -1, "The rows of all ranks in rank order, on every rank.");
  m.def(
      "reduce_scatter", [](const Arg& x) { return without_gil([&] { return reduce_scatter(x.tensor); }); },
      nb::arg("x"), "This rank's rows of the sum of every rank's x.");
  m.def(
      "all_to_all", [](const Arg& x) { return without_gil([&] { return all_to_all(x.tensor); }); }, nb::arg("x"),
      "Piece d of the rows to rank d.");
  m.def("_strategy_kinds", [] { return described(dist::strategy_kinds()); });
  m.def("_make_strategy", [](const std::string& kind, const std::string& options) {
    const std::shared_ptr<Comm> comm = world_comm();
    const ConfigNode node = ConfigNode::parse(options, kind);
    const auto maker =
        without_places(kind, [&] { return dist::strategy_kinds().choose_named(kind, node, node).make(); });
    check(
        !dist::server_rule(maker),
        "[{0}] expected a strategy of equal ranks here, got one with parameter servers, which are ranks of their own: "
        "run it as a job, starling.train.run({{..., \"distribute\": {{\"strategy\": \"{0}\", \"workers\": 2, "
        "\"servers\": 1}}}})",
        kind);
    const auto made = without_gil([&] { return maker(comm); });  // ranks may meet here
    PyStrategy strategy{made, comm, made->global_program()};
    if (comm->size() > 1 && stores_pieces(nlohmann::json::parse(options))) strategy.begun = std::make_shared<bool>();
    return strategy;
  });
  m.def(
      "_data_parallel",
      [](int workers, bool deterministic, int shards) {
        return PyStrategy{data_parallel({.workers = workers, .deterministic = deterministic, .shards = shards}),
                          nullptr};
      },
      nb::arg("workers"), nb::arg("deterministic"), nb::arg("shards"));
}

}  // namespace starling::python
