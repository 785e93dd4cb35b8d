#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/session_testing.h"

// The example of docs/graphs.md, held against its text.
namespace starling::testing {
namespace {

// example: build
graph::Graph build(const std::string& file) {
  GraphBuilder b;  // from here to finish() ops of this thread go to the graph
  const Tensor x = b.placeholder("x", DType::f32, {32, 2});
  const Tensor t = b.placeholder("t", DType::f32, {32, 1});

  const Tensor w1 = b.variable("w1", normal({2, 16}));
  const Tensor w2 = b.variable("w2", normal({16, 1}, {.stddev = 0.3}));
  const Tensor hidden = b.name("hidden", tanh(matmul(x, w1)));
  const Tensor y = b.name("y", matmul(hidden, w2));

  const Tensor error = sub(y, t);
  const Tensor loss = b.name("loss", mean(mul(error, error)));
  const TensorList g = b.gradients(loss, {w1, w2});
  b.group("train", {b.assign(w1, sub(w1, mul(g[0], 0.1))), b.assign(w2, sub(w2, mul(g[1], 0.1)))});

  b.name("save", save(file, {w1, w2}));
  b.group("restore", {b.assign(w1, restore(file, "w1", w1.type())), b.assign(w2, restore(file, "w2", w2.type()))});
  return b.finish();
}
// end

// example: queue
graph::Graph build_reader() {
  GraphBuilder b;
  b.updates("next", [&] {
    const Tensor sample = uniform({2}, {.low = -1, .high = 1});
    enqueue("samples", {sample, prod(sample, {.axes = {0}, .keepdim = true})});
    default_generator().next_step();  // other numbers in the next run
  });
  return b.finish();
}
// end

TEST(GraphsDoc, ExampleDoesWhatItSays) {
  const std::string file =
      (std::filesystem::path(::testing::TempDir()) / fmt::format("graphs_doc_{}.safetensors", getpid())).string();
  manual_seed(1);
  // example: run
  const graph::Graph graph = build(file);
  Containers containers;
  Session s(graph, containers.open("model"));

  const Tensor x = uniform({32, 2}, {.low = -1, .high = 1});
  const Tensor t = prod(x, {.axes = {1}, .keepdim = true});
  const double before = s.run({"loss"}, {{"x", x}, {"t", t}})[0].item();
  for (int i = 0; i < 500; ++i) s.run({}, {{"x", x}, {"t", t}}, {"train"});
  const double after = s.run({"loss"}, {{"x", x}, {"t", t}})[0].item();

  // Any edge can be fed: here `hidden`, so that neither x nor w1 is needed.
  const TensorList out = s.run({"y", "w2"}, {{"hidden", zeros({32, 16})}});

  s.run({"save"});
  containers.reset("model");  // w1 and w2 are what they were at first
  s.run({}, {}, {"restore"});
  const double restored = s.run({"loss"}, {{"x", x}, {"t", t}})[0].item();

  // The text holds everything: names, first values, targets.
  Session from_text(graph::parse_graph(print(graph)));
  // end
  EXPECT_LT(after, before / 3);
  EXPECT_EQ(out[0].to_vector(), std::vector<double>(32, 0.0));
  EXPECT_EQ(restored, after);
  EXPECT_NEAR(from_text.run({"loss"}, {{"x", x}, {"t", t}})[0].item(), before, 1e-6 * before);
  std::filesystem::remove(file);
}

TEST(GraphsDoc, QueueExampleDoesWhatItSays) {
  // example: pipeline
  const std::vector<TensorType> types{{DType::f32, {2}}, {DType::f32, {1}}};
  auto queue = std::make_shared<TensorQueue>(QueueOptions{.name = "samples", .capacity = 8, .types = types});
  Session reader(build_reader(), {.queues = {{"samples", queue}}});
  std::thread reading([&] {
    for (int i = 0; i < 64; ++i) reader.run({}, {}, {"next"});
    queue->close();
  });

  GraphBuilder b;
  const TensorList batch = dequeue_many("samples", 32, types);  // f32[32, 2] and f32[32, 1]
  b.name("mean", mean(mul(batch[0], batch[0])));
  Session consumer(b.finish(), {.queues = {{"samples", queue}}});
  std::vector<double> means;
  try {
    while (true) means.push_back(consumer.run({"mean"})[0].item());
  } catch (const QueueClosed&) {
  }
  reading.join();
  // end
  ASSERT_EQ(means.size(), 2u);
  for (double m : means) EXPECT_NEAR(m, 1.0 / 3, 0.15);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Each piece between "// example: name" and "// end" of this file stands in the document, but for its indentation.
TEST(GraphsDoc, TextIsThisCode) {
  const std::filesystem::path root = STARLING_SOURCE_FOLDER;
  const std::string doc = text_of(root / "docs/graphs.md");
  std::istringstream code(text_of(root / "tests/runtime/graphs_doc_test.cpp"));
  std::string line, piece, name;
  int pieces = 0;
  while (std::getline(code, line)) {
    const auto indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string bare = line.substr(indent);
    if (bare.starts_with("// example: ")) {
      name = bare.substr(12);
      piece.clear();
    } else if (bare == "// end" && !name.empty()) {
      EXPECT_TRUE(holds(doc, piece)) << "docs/graphs.md does not hold the example '" << name << "':\n" << piece;
      name.clear();
      ++pieces;
    } else if (!name.empty()) {
      const bool inside = name == "run" || name == "pipeline";  // indented, as part of a test's body
      piece += (inside && line.size() >= 2 ? line.substr(2) : line) + "\n";
    }
  }
  EXPECT_EQ(pieces, 4);
}

}  // namespace
}  // namespace starling::testing
