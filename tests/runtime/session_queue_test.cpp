#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/session_testing.h"
#include "starling/ops/def/attrs/queue.h"

namespace starling::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

const std::vector<TensorType> kPair{{DType::f32, {3}}, {DType::i64, {}}};

// Reads the fed sample into a queue.
graph::Graph input_pipeline() {
  GraphBuilder b;
  const Tensor image = b.placeholder("image", DType::f32, {3}), label = b.placeholder("label", DType::i64, {});
  b.name("put", enqueue("samples", {mul(image, one_value(2)), label}));
  b.name("close", queue_close("samples"));
  b.name("size", queue_size("samples"));
  return b.finish();
}

TEST(SessionQueues, CarryElementsBetweenSessionsInTwoThreads) {
  constexpr int kCount = 1000, kMany = 5;
  auto queue = make_queue("samples", 4, kPair);
  Session producer(input_pipeline(), {.queues = {{"samples", queue}}, .threads = 1});

  GraphBuilder b;
  const TensorList batch = dequeue_many("samples", kMany, kPair);
  b.name("labels", batch[1]);
  const Tensor total = b.variable("total", one_value(0));
  b.assign(total, add(total, sum(batch[0])), "train");
  Session trainer(b.finish(), {.queues = {{"samples", queue}}, .threads = 1});

  std::atomic<std::size_t> most{0};
  std::thread feeding([&] {
    for (int i = 0; i < kCount; ++i) {
      producer.run({"put"}, {{"image", values({1, 0, i % 7 * 1.0})}, {"label", one_value(i, DType::i64)}});
      most = std::max(most.load(), queue->size());
    }
    producer.run({"close"});
  });
  std::vector<double> labels;
  std::string end;
  try {
    while (true) {
      for (double v : trainer.run({"labels"}, {}, {"train"})[0].to_vector()) labels.push_back(v);
    }
  } catch (const QueueClosed& error) {
    end = error.what();
  }
  feeding.join();
  ASSERT_EQ(labels.size(), static_cast<std::size_t>(kCount));
  double sum = 0;
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(labels[static_cast<std::size_t>(i)], i) << "in order, nothing lost, nothing twice";
    sum += 2 * (1 + i % 7);
  }
  EXPECT_EQ(trainer.container().value("total").item(), sum);
  EXPECT_LE(most, 4u);
  EXPECT_TRUE(holds(end, "'samples'") && holds(end, "closed and empty")) << end;
}

TEST(SessionQueues, KeepTheOrderOfTheirOpsInOneRun) {
  auto queue = make_queue("q", 10);
  GraphBuilder b;
  Tensor last;
  for (int i = 0; i < 6; ++i) last = enqueue("q", {b.constant(one_value(i))});
  b.name("last", last);
  TensorList taken;
  for (int i = 0; i < 6; ++i) taken.push_back(dequeue("q", {{DType::f32, {}}})[0]);
  Session s(b.finish(), {.queues = {{"q", queue}}});
  // The results of all six in one run, asked for backwards, and the enqueues as targets.
  std::vector<Target> puts;
  const graph::Graph& graph = s.graph();
  for (graph::ValueId id = 0; id < static_cast<graph::ValueId>(graph.values().size()); ++id) {
    if (is_op(graph.maker(id), "enqueue"))
      puts.emplace_back(graph.tracer, std::vector<graph::NodeId>{graph.value(id).node});
  }
  std::vector<Edge> fetches;
  for (std::size_t i = taken.size(); i-- > 0;) fetches.emplace_back(taken[i]);
  const TensorList got = s.run(fetches, {}, puts);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].item(), 5.0 - static_cast<double>(i));
}

// Pure assigns are scheduled as early as possible, but not before preceding effects.
TEST(SessionQueues, KeepTheOrderAlsoWhereAnAssignWaitsForOne) {
  auto queue = make_queue("q", 10);
  GraphBuilder b;
  const Tensor before = b.variable("before", one_value(-1, DType::i64));
  const Tensor between = b.variable("between", one_value(-1, DType::i64));
  const Tensor later = b.variable("later", one_value(-1, DType::i64));
  b.updates("all", [&] {
    assign(before, queue_size("q"));
    enqueue("q", {one_value(1)});
    assign(between, queue_size("q"));
    dequeue("q", {{DType::f32, {}}});
    assign(later, queue_size("q"));
  });
  Session s(b.finish(), {.queues = {{"q", queue}}});
  s.run({}, {}, {"all"});
  EXPECT_EQ(s.container().value("before").item(), 0);
  EXPECT_EQ(s.container().value("between").item(), 1);
  EXPECT_EQ(s.container().value("later").item(), 0);
}

TEST(SessionQueues, NeverMergeEqualOps) {
  auto queue = make_queue("q", 10);
  for (int i = 0; i < 3; ++i) queue->enqueue({one_value(i)});
  GraphBuilder b;
  const Tensor first = dequeue("q", {{DType::f32, {}}})[0], second = dequeue("q", {{DType::f32, {}}})[0];
  b.name("both", sub(second, first));
  Session s(b.finish(), {.queues = {{"q", queue}}});
  EXPECT_EQ(s.run({"both"})[0].item(), 1);
  EXPECT_EQ(queue->size(), 1u);
}

TEST(SessionQueues, CancelWakesASessionThatWaits) {
  auto queue = make_queue("q", 1);
  GraphBuilder b;
  b.name("x", dequeue("q", {{DType::f32, {}}})[0]);
  Session s(b.finish(), {.queues = {{"q", queue}}});
  std::atomic<bool> cancelled{false};
  std::thread waiting([&] {
    try {
      s.run({"x"});
    } catch (const QueueCancelled&) {
      cancelled = true;
    }
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(cancelled);
  const auto start = steady_clock::now();
  queue->cancel();
  waiting.join();
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(cancelled);
}

// One session, one container: a run that waits for data holds neither the session nor the variables.
TEST(SessionQueues, DoNotHoldUpOtherRunsWhileTheyWait) {
  auto queue = make_queue("q", 1);
  GraphBuilder b;
  const Tensor n = b.variable("n", one_value(0));
  const Tensor x = dequeue("q", {{DType::f32, {}}})[0];
  b.assign(n, add(n, x), "add");
  b.name("put", enqueue("q", {b.placeholder("value", DType::f32, {})}));
  b.assign(n, one_value(100), "set");
  Containers all;
  Session s(b.finish(), all.open("n"), {.queues = {{"q", queue}}});
  s.run({"n"});
  std::atomic<bool> done{false};
  std::thread waiting([&] {
    s.run({}, {}, {"add"});
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(20));
  s.run({}, {}, {"set"});  // writes the variable that the waiting run is going to write
  EXPECT_EQ(s.run({"n"})[0].item(), 100);
  all.reset("n");
  EXPECT_EQ(s.run({"n"})[0].item(), 0);
  EXPECT_FALSE(done);
  s.run({"put"}, {{"value", one_value(7)}});
  waiting.join();
  EXPECT_EQ(s.run({"n"})[0].item(), 7);
}

TEST(SessionQueues, RefuseUnknownNamesAndOtherTypes) {
  GraphBuilder b;
  b.name("x", dequeue("sample", {{DType::f32, {3}}})[0]);
  b.name("many", dequeue_many("samples", 2, {{DType::f32, {2}}})[0]);
  Session s(b.finish(), {.queues = {{"samples", make_queue("samples", 4, kPair)}}});
  EXPECT_TRUE(holds(error_of([&] { s.run({"x"}); }), "got 'sample' (did you mean 'samples'?)"));
  const std::string error = error_of([&] { s.run({"many"}); });
  EXPECT_TRUE(holds(error, "expected elements (f32[3], i64[]) as queue 'samples' has, got (f32[2])")) << error;
}

TEST(SessionQueues, RefuseToRunOutsideOfASession) {
  EXPECT_TRUE(holds(error_of([] { dequeue("q", {{DType::f32, {}}}); }), "[dequeue] expected to run in a session"));
  EXPECT_TRUE(holds(error_of([] { enqueue("q", {one_value(1)}); }), "[enqueue] expected to run in a session"));
}

TEST(SessionQueues, RefuseToRunInABody) {
  GraphBuilder b;
  const Tensor due = b.placeholder("due", DType::boolean, {});
  const auto none = [&] { return TensorList{full({}, 0.0, DType::i64)}; };
  b.name("put", cond(
                    due, [&] { return TensorList{enqueue("q", {one_value(1)})}; }, none)[0]);
  Session s(b.finish(), {.queues = {{"q", make_queue("q", 2)}}});
  EXPECT_TRUE(holds(error_of([&] {
                      s.run({"put"}, {{"due", one_value(1, DType::boolean)}});
                    }),
                    "body of control flow"));
}

TEST(SessionQueues, RefuseBadAttributes) {
  const auto infer_types = [](const std::string& types, std::int64_t n) {
    return error_of(
        [&] { op::parse_types(types, "dequeue"), dequeue_many("q", n, op::parse_types(types, "dequeue")); });
  };
  EXPECT_TRUE(holds(infer_types("f32", 1), "expected types like f32[784], i64[], got 'f32'"));
  EXPECT_TRUE(holds(infer_types("f33[1]", 1), "got 'f33[1]'"));
  EXPECT_TRUE(holds(infer_types("f32[-1]", 1), "sizes of at least 0"));
  EXPECT_TRUE(holds(infer_types("f32[1] i64[]", 1), "expected a comma"));
  EXPECT_TRUE(holds(infer_types("", 1), "got none"));
  EXPECT_TRUE(holds(infer_types("f32[1]", 0), "expected at least one element, got n = 0"));
  EXPECT_TRUE(holds(infer_types("f32[1,1,1,1,1,1,1,1]", 2), "rank below 8"));
  EXPECT_EQ(to_string(op::parse_types("f32[2, 3],i64[] , bool[0]", "x")), "f32[2, 3], i64[], bool[0]");
}

TEST(SessionQueues, AreNotDifferentiated) {
  GraphBuilder b;
  const Tensor w = b.variable("w", one_value(3));
  const Tensor x = dequeue("q", {{DType::f32, {}}})[0];
  const Tensor y = mul(w, x);
  EXPECT_TRUE(holds(error_of([&] { b.gradients(y, {x}); }), "[gradients] expected edges computed from"));
  b.name("dw", b.gradients(y, {w})[0]);
  auto queue = make_queue("q", 2);
  Session s(b.finish(), {.queues = {{"q", queue}}});
  queue->enqueue({one_value(5)});
  EXPECT_EQ(s.run({"dw"})[0].item(), 5);
}

TEST(SessionQueues, RunFromText) {
  auto queue = make_queue("samples", 4, kPair);
  Session s(graph::parse_graph(print(input_pipeline())), {.queues = {{"samples", queue}}});
  EXPECT_EQ(s.run({"put"}, {{"image", values({1, 2, 3})}, {"label", one_value(4, DType::i64)}})[0].item(), 1);
  EXPECT_EQ(s.run({"size"})[0].item(), 1);
  EXPECT_EQ(queue->dequeue()[0].to_vector(), (std::vector<double>{2, 4, 6}));
}

}  // namespace
}  // namespace starling::testing
