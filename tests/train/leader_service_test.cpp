// Lines of workers to the leader of their run, by messages within a process.
#include "starling/train/workers/leader_service.h"

#include <gtest/gtest.h>

#include "dist/ps/ps_testing.h"
#include "starling/base/error.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/ops/api/creation.h"
#include "starling/train/workers/control.h"
#include "starling/train/workers/group_line.h"
#include "starling/train/workers/worker_pool.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;
using Clock = std::chrono::steady_clock;
using Kind = PortionAnswer::Kind;

constexpr const char* kLeader = "inproc://leader";

class LeaderLines : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    wire_ = ps::make_wire();
  }
  // A worker's line, without signs of life unless told so.
  DirectLine line(int worker, std::chrono::milliseconds heartbeat = 0ms,
                  std::chrono::milliseconds silence = 10'000ms) const {
    return DirectLine(wire_, {.address = kLeader, .worker = worker, .heartbeat = heartbeat, .silence = silence});
  }
  static void open(PortionQueue& queue, int workers) {
    queue.open({.grid = data::PortionGrid({.samples = 100, .batch = 10, .pieces = workers}), .limit = 1000});
    queue.allow(1000);
  }
  // Makes a portion; true: the worker is to show its running statistics.
  static bool makes(DirectLine& line) {
    const std::atomic<bool> stop{false};
    const auto portion = line.next(stop);
    return portion && line.done({.portion = *portion, .weight = 1});
  }
  // Workers that the queue has lost, of which there will be so many.
  static std::vector<PortionQueue::Lost> lost(PortionQueue& queue, std::size_t count) {
    std::vector<PortionQueue::Lost> all;
    for (const auto until = Clock::now() + 10s; all.size() < count && Clock::now() < until;) {
      for (auto& one : queue.take_lost()) all.push_back(std::move(one));
      std::this_thread::sleep_for(5ms);
    }
    return all;
  }

  std::shared_ptr<ps::Wire> wire_;
};

TEST_F(LeaderLines, AMissedAnswerToASignOfLifeIsNotTheEndOfThem) {
  const auto leader = wire_->listen(kLeader, kMostControl);
  ps::Socket* const sockets[] = {leader.get()};
  const auto worker = line(0, 10ms, 100ms);
  int signs = 0;
  for (const auto until = Clock::now() + 5s; signs < 4 && Clock::now() < until;) {
    wire_->wait(sockets, 10ms);
    std::string peer;
    while (const auto message = leader->receive(&peer)) {
      if (++signs == 1) continue;  // this one gets none
      ps::Header back = message->header;
      back.verb = ps::Verb::done;
      leader->send({back, {}}, peer);
    }
  }
  EXPECT_EQ(signs, 4);
}

TEST_F(LeaderLines, ALineEndsWithoutWaitingForAnAnswer) {
  const auto leader = wire_->listen(kLeader, kMostControl);
  Clock::time_point ends;
  {
    const auto worker = line(0, 10ms, 20'000ms);
    std::this_thread::sleep_for(50ms);
    ends = Clock::now();
  }
  EXPECT_LT(Clock::now() - ends, 5s);
}

TEST_F(LeaderLines, RunningStatisticsAreThoseOfTheFirstWorkerThatIsLeft) {
  const auto buffers = std::make_shared<SharedBuffers>();
  buffers->show({full({3}, 1.0), full({}, 1.0, DType::f64)});
  const auto read = [&] {
    const Tensor mean = zeros({3}), count = zeros({}, DType::f64);
    buffers->read({mean, count});
    EXPECT_EQ(mean.to_vector(), std::vector<double>(3, count.item()));
    return count.item();
  };
  const auto values = [](double value) { return std::vector{full({3}, value), full({}, value, DType::f64)}; };
  PortionQueue queue({.workers = 3});
  open(queue, 3);
  const LeaderService service(wire_, queue, {.address = kLeader, .workers = 3, .silence = 0ms, .buffers = buffers});
  auto first = line(1), second = line(2);
  EXPECT_FALSE(makes(first)) << "worker 0 shows its own";
  first.show(values(2));
  EXPECT_EQ(read(), 1);
  queue.lose(0, "killed");
  EXPECT_FALSE(makes(second));
  EXPECT_TRUE(makes(first));
  first.show(values(3));
  second.show(values(4));
  EXPECT_EQ(read(), 3);
  queue.lose(1, "killed");
  EXPECT_TRUE(makes(second));
  second.show(values(5));
  EXPECT_EQ(read(), 5);
}

TEST_F(LeaderLines, ANetworkWithoutRunningStatisticsHasNoneToSend) {
  PortionQueue queue({.workers = 2});
  open(queue, 2);
  const LeaderService service(
      wire_, queue, {.address = kLeader, .workers = 2, .silence = 0ms, .buffers = std::make_shared<SharedBuffers>()});
  queue.lose(0, "killed");
  auto worker = line(1);
  EXPECT_FALSE(makes(worker));
}

// Worker 0 joins, worker 1 is never heard of, worker 2 lives and does not join.
// Label: waits
TEST_F(LeaderLines, AWorkerThatDoesNotJoinIsLost) {
  PortionQueue queue({.workers = 3});
  open(queue, 3);
  LeaderService service(wire_, queue, {.address = kLeader, .workers = 3, .silence = 1'500ms, .join = 3'000ms});
  auto joins = line(0, 20ms);
  const auto loads = line(2, 20ms);
  std::this_thread::sleep_for(1'700ms);
  EXPECT_TRUE(queue.take_lost().empty()) << "the run has not begun";
  service.begin({});
  EXPECT_TRUE(joins.join({}).has_value());
  const auto gone = lost(queue, 2);
  ASSERT_EQ(gone.size(), 2U);
  EXPECT_EQ(gone[0].worker, 1) << gone[0].why;
  EXPECT_EQ(gone[1].worker, 2) << gone[1].why;
  for (const auto& one : gone) EXPECT_NE(one.why.find("it has not joined within "), std::string::npos) << one.why;
  EXPECT_EQ(queue.first(), 0);
}

// Member 1 loads its data for longer than any call of the group may take.
// Label: waits
TEST_F(LeaderLines, MembersWaitForOneThatLoadsForLong) {
  PortionQueue queue({.workers = 1});
  open(queue, 1);
  LeaderService service(wire_, queue, {.address = kLeader, .workers = 1, .members = 2});
  service.begin({});
  auto tells = make_thread_comms(2, {.deadline = 1s}), asks = make_thread_comms(2, {.deadline = 1s});
  std::vector<std::thread> members;
  std::atomic<int> joined{0};
  for (std::size_t m = 0; m < 2; ++m) {
    members.emplace_back([&, m] {
      GroupLine own({.leader = std::make_shared<DirectLine>(
                         wire_, LeaderLineOptions{.address = kLeader, .worker = static_cast<int>(m)}),
                     .asks = std::move(asks[m]),
                     .tells = std::move(tells[m])});
      if (m == 1) std::this_thread::sleep_for(2500ms);
      try {
        joined += own.join({}).has_value() ? 1 : 0;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (auto& member : members) member.join();
  EXPECT_EQ(joined, 2);
}

// A pool of two workers beside a server.
class Pool {
 public:
  explicit Pool(std::chrono::milliseconds heartbeat, std::chrono::milliseconds deadline = 300'000ms)
      : rule_(ps::optimizer_named("sgd")({{.parameters = {weight_}}})) {
    WorkerPoolOptions how;
    how.strategy = "async";
    how.workers = 2;
    how.wire = servers_.wire;
    how.address = kLeader;
    how.heartbeat = heartbeat;
    how.deadline = deadline;
    how.connect = [this](const dist::TrainedState&) { return servers_.client(-1); };
    pool = std::make_unique<WorkerPool>(std::move(how));
    pool->begin({.grid = {.samples = 100, .batch = 10},
                 .epochs = 1,
                 .rate = [](std::int64_t) { return 0.1; },
                 .state = {.weights = {{"a", weight_}}, .rule = rule_.get()}});
    pool->allow(1);
  }
  const std::shared_ptr<ps::Wire>& wire() const { return servers_.wire; }

 private:
  ps::ServerThreads servers_{
      "inproc", {{.name = "a", .type = {DType::f32, {4}}}}, 1, {.clock = {.workers = 2, .bound = ps::kUnbounded}}};
  Tensor weight_ = zeros({4}).set_name("a").set_requires_grad();
  std::unique_ptr<optim::Optimizer> rule_;

 public:
  std::unique_ptr<WorkerPool> pool;  // goes first
};

// The leader notices the loss at its next look, and has the servers retire the worker before that gets a portion again.
TEST_F(LeaderLines, AWorkerThatIsTakenForLostComesBackOnceTheServersKnow) {
  const Pool made(0ms);
  wire_ = made.wire();
  auto worker = line(1);
  EXPECT_EQ(worker.ask().kind, Kind::portion);
  made.pool->lose(1, "it has no disk");
  EXPECT_EQ(worker.ask().kind, Kind::later);
  EXPECT_FALSE(made.pool->step().has_value());
  const auto notes = made.pool->take_notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("worker 1 is lost: it has no disk"), std::string::npos) << notes[0];
  const PortionAnswer back = worker.ask();
  EXPECT_EQ(back.kind, Kind::portion);
  EXPECT_EQ(back.alone, 1);
}

// Both give signs of life, and worker 1 does not join.
// Label: waits
TEST_F(LeaderLines, AWorkerHasHalfOfTheDeadlineToJoin) {
  const auto begin = Clock::now();
  const Pool made(500ms, 4'000ms);
  wire_ = made.wire();
  auto joins = line(0, 100ms);
  const auto loads = line(1, 100ms);
  EXPECT_TRUE(joins.join({}).has_value());
  std::vector<std::string> notes;
  while (notes.empty() && Clock::now() - begin < 10s) {
    static_cast<void>(made.pool->step());
    notes = made.pool->take_notes();
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("worker 1 is lost: it has not joined within "), std::string::npos) << notes[0];
  EXPECT_GE(Clock::now() - begin, 2'000ms) << "not as soon as one that is silent";
}

}  // namespace
}  // namespace starling::train
