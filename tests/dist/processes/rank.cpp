// One rank of a world of processes: runs the checks of tests/dist for transports and communicators over a given
// backend. Started by run.py, once per rank or through mpirun. Exits with 0 on success, 77 if the build lacks the
// backend.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "dist/comm_conformance.h"
#include "dist/seeded_mistakes.h"
#include "dist/transport_conformance.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/launch/world.h"

namespace starling::dist {
namespace {

using namespace transport_checks;

constexpr int kSkipped = 77;

// --name value …
class Arguments {
 public:
  Arguments(int count, char** words) {
    for (int i = 1; i + 1 < count; i += 2) values_[words[i]] = words[i + 1];
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find("--" + name);
    return found == values_.end() ? otherwise : found->second;
  }
  int number(const std::string& name, int otherwise) const { return std::stoi(text(name, std::to_string(otherwise))); }

 private:
  std::map<std::string, std::string> values_;
};

class World {
 public:
  explicit World(const Arguments& arguments)
      : backend_(arguments.text("backend", "gloo")),
        group_{.rank = arguments.number("rank", 0), .size = arguments.number("world", 1)},
        options_{.address = arguments.text("address", "127.0.0.1"), .interface = arguments.text("interface", "")} {
    if (backend_ == "gloo" && has_gloo()) store_ = make_file_store(arguments.text("store", ""));
  }

  bool there() const { return backend_ == "mpi" ? has_mpi() : has_gloo(); }

  std::unique_ptr<Comm> comm(std::uint64_t epoch) {
    if (backend_ == "mpi") return make_mpi_comm({.epoch = epoch});
    group_.epoch = epoch;
    return make_gloo_comm(store_, group_, options_);
  }

  std::shared_ptr<Transport> transport(std::uint64_t epoch) {
    if (backend_ == "mpi") return make_mpi_transport({.epoch = epoch});
    group_.epoch = epoch;
    return make_gloo_transport(store_, group_, options_);
  }

 private:
  std::string backend_;
  CommGroup group_;
  GlooOptions options_;
  std::shared_ptr<Store> store_;
};

void run_all(Transport& transport) {
  for (const Check& one : all_checks()) {
    try {
      one.run(transport);
    } catch (const Error& error) {
      fail("{}: {}", one.name, error.what());
    }
  }
}

void transports(World& world) {
  const auto transport = world.transport(0);
  run_all(*transport);
  if (transport->size() == 2) large_messages_cross(*transport);
}

// Nearly every message exceeds the longest single MPI call.
void messages_in_parts(World&) { run_all(*make_mpi_transport({.longest = 1000})); }

// 256 MB, both ways.
void huge_messages(World& world) { large_messages_cross(*world.transport(0), std::size_t{256} << 20); }

void communicators(World& world) {
  auto comm = world.comm(0);
  set_thread_rank(comm->rank());
  check(conformance::run_conformance(*comm), "the conformance suite fails");
  check(conformance::run_conformance(*make_checking(std::move(comm))), "the conformance suite fails when checked");
}

// The last rank is killed during a collective: every other rank names it soon.
void lost_in_a_collective(World& world) {
  const auto comm = world.comm(0);
  const int victim = comm->size() - 1;
  std::vector<float> data(1 << 16, 1.0f);
  CommTime start = CommClock::now();
  try {
    for (int step = 0;; ++step) {
      if (step == 5 && comm->rank() == victim) ::kill(::getpid(), SIGKILL);
      start = CommClock::now();
      const auto count = static_cast<std::int64_t>(data.size());
      comm->all_reduce(data.data(), data.data(), count, DType::f32, ReduceOp::mean).wait();
    }
  } catch (const Error& error) {
    const std::string text = error.what();
    const double seconds = std::chrono::duration<double>(CommClock::now() - start).count();
    check(text.find(fmt::format("rank {} of group 'world' is lost", victim)) != std::string::npos, "{}", text);
    check(seconds < 1.5, "expected rank {} named within a second, got {:.2f} s", victim, seconds);
  }
}

// The last rank is killed while computing; all others name it within a second, whomever they wait for.
void lost_rank(World& world) {
  const auto transport = world.transport(0);
  const int victim = transport->size() - 1;
  Bytes data(std::size_t{1} << 20);
  const CommTime start = CommClock::now();
  try {
    exchange_all(*transport, 1000, 1);
    const int next = (transport->rank() + 1) % transport->size();
    const auto received = transport->recv(next, 2, data.data(), data.size());
    if (transport->rank() == victim) ::kill(::getpid(), SIGKILL);
    dist::finish(*transport, {received}, milliseconds(10'000));
  } catch (const Error& error) {
    const std::string text = error.what();
    const double seconds = std::chrono::duration<double>(CommClock::now() - start).count();
    check(text.find("rank " + std::to_string(victim)) != std::string::npos, "expected rank {} named, got: {}", victim,
          text);
    check(seconds < 1.5, "expected rank {} named within a second, got {:.2f} s", victim, seconds);
    transport->abort(text);
    return;
  }
  fail("expected an error that names rank {}, got none", victim);
}

// An abort reaches ranks that wait for others, and the next group works.
void abort_and_go_on(World& world) {
  {
    const auto transport = world.transport(0);
    Bytes data(1000), unwanted(std::size_t{1} << 20);
    const int next = (transport->rank() + 1) % transport->size();
    transport->send(next, 2, unwanted.data(), unwanted.size());  // never received
    if (transport->rank() == 0) {
      std::this_thread::sleep_for(milliseconds(20));
      transport->abort("rank 0 is out of paper");
    } else {
      const auto received = transport->recv(next, 1, data.data(), data.size());
      try {
        dist::finish(*transport, {received}, milliseconds(10'000));
        fail("expected an error after the abort, got none");
      } catch (const Error& error) {
        const std::string text = error.what();
        check(text.find("rank 0 is out of paper") != std::string::npos, "{}", text);
      }
    }
  }
  const auto again = world.transport(1);
  exchange_all(*again, 1000, 1);
}

// The first rank leaves properly: only ranks that still wait for it get an error.
void one_leaves(World& world) {
  auto transport = world.transport(0);
  exchange_all(*transport, 1000, 1);
  if (transport->rank() == 0) return transport.reset();
  std::this_thread::sleep_for(milliseconds(500));
  if (transport->rank() == 1) {
    Bytes data(1000);
    try {
      dist::finish(*transport, {transport->recv(0, 2, data.data(), data.size())}, milliseconds(10'000));
      fail("expected an error that names rank 0, got none");
    } catch (const Error& error) {
      const std::string text = error.what();
      check(text.find("rank 0 has left the group 'world'") != std::string::npos, "{}", text);
    }
  }
}

// Gathers every rank's outcome of a case on all ranks.
std::vector<seeded::Played> gather(Comm& comm, const seeded::Played& own) {
  struct Line {
    std::int64_t entered, failed;
    char message[4000];
  };
  Line line{own.entered, own.failed, {}};
  own.message.copy(line.message, sizeof(line.message) - 1);
  std::vector<Line> lines(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&line, lines.data(), sizeof(Line), DType::u8).wait();
  std::vector<seeded::Played> all;
  for (const Line& one : lines) all.push_back({one.message, one.entered, one.failed});
  return all;
}

// Runs every `every`-th seeded mistake that fits this number of ranks, each in its own group. Ranks that a case does
// not need leave.
void mistakes(World& world, int every) {
  const auto verdicts = world.comm(0);
  set_thread_rank(verdicts->rank());
  seeded::Tally tally;
  for (int i = 0; i < seeded::kCases; i += every) {
    const seeded::Case c = seeded::Generator(i, static_cast<seeded::Kind>(i % seeded::kKinds)).make();
    if (c.world > verdicts->size()) continue;
    const bool plays = verdicts->rank() < c.world;
    auto part = world.comm(static_cast<std::uint64_t>(i) + 1)->split(plays ? 0 : -1, verdicts->rank());
    if (plays) part = make_checking(std::move(part));
    verdicts->barrier().wait();  // a rank's mistake must not hit others still in the split
    seeded::Played own;
    if (plays) own = seeded::play_rank(c.programs[static_cast<std::size_t>(verdicts->rank())], std::move(part));
    auto played = gather(*verdicts, own);
    played.resize(static_cast<std::size_t>(c.world));
    tally.add(i, c, seeded::Outcome(played));
  }
  if (verdicts->rank() == 0)
    fmt::print("{} mistakes, {} named, {} in time\n", tally.played, tally.named, tally.in_time);
  check(tally.played > 0 && tally.in_time == tally.played, "expected all mistakes named, got\n{}", tally.misses);
}

// One rank fails on its own while the others wait for it.
void one_fails(World& world) {
  const auto comm = world.comm(0);
  set_thread_rank(comm->rank());
  if (comm->rank() == 1) fail("out of paper");
  comm->barrier().wait();
}

// Joins as users do, is done with the world, and goes on alone. Heartbeats are so far apart that a busy machine does
// not make a rank silent.
void leave_and_work(void (*work)(int rank)) {
  int rank = 0;
  {
    const starling::World world = join_world({}, {.backend = "mpi", .heartbeat = milliseconds(2'000)});
    world.comm->barrier().wait();
    rank = world.info.rank;
  }
  work(rank);
}

// For longer than three heartbeats, in which the others wait in MPI's exit.
void export_alone(int rank) {
  if (rank != 0) return;
  std::this_thread::sleep_for(milliseconds(10'000));
  fmt::print("rank 0 has exported\n");
  std::fflush(stdout);
}

void works_alone_at_the_end(World&) { leave_and_work(export_alone); }

void rank0_stopped_at_the_end(World&) {
  leave_and_work([](int rank) {
    if (rank == 0) ::raise(SIGSTOP);
  });
}

void rank1_stopped_at_the_end(World&) {
  leave_and_work([](int rank) {
    if (rank == 1) ::raise(SIGSTOP);
    export_alone(rank);
  });
}

int run(const Arguments& arguments) {
  const std::map<std::string, std::function<void(World&)>> modes{{"transports", transports},
                                                                 {"messages_in_parts", messages_in_parts},
                                                                 {"huge_messages", huge_messages},
                                                                 {"communicators", communicators},
                                                                 {"lost_rank", lost_rank},
                                                                 {"lost_in_a_collective", lost_in_a_collective},
                                                                 {"abort", abort_and_go_on},
                                                                 {"one_leaves", one_leaves},
                                                                 {"one_fails", one_fails},
                                                                 {"works_alone_at_the_end", works_alone_at_the_end},
                                                                 {"rank0_stopped_at_the_end", rank0_stopped_at_the_end},
                                                                 {"rank1_stopped_at_the_end", rank1_stopped_at_the_end},
                                                                 {"mistakes", [](World& w) { mistakes(w, 1); }},
                                                                 {"some_mistakes", [](World& w) { mistakes(w, 17); }}};
  World world(arguments);
  if (!world.there()) return kSkipped;
  modes.at(arguments.text("mode", "transports"))(world);
  return 0;
}

}  // namespace
}  // namespace starling::dist

int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);  // gtest expectations are used outside gtest tests
  try {
    return starling::dist::run(starling::dist::Arguments(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
