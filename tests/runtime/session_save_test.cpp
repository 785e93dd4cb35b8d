#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/session_testing.h"
#include "starling/data/formats/safetensors.h"
#include "starling/ops/api/saved_tensors.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/saved_tensors.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

namespace fs = std::filesystem;

class SavedTensors : public ::testing::Test {
 protected:
  SavedTensors() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / fmt::format("starling_saved_{}_{}", info->name(), getpid());
    fs::create_directories(folder_);
  }
  ~SavedTensors() override { fs::remove_all(folder_); }
  std::string file(const std::string& name = "model.safetensors") const { return (folder_ / name).string(); }

  fs::path folder_;
};

// A step on two variables, `save` writes them, `restore` reads them back.
struct Model {
  graph::Graph graph;

  explicit Model(const std::string& file) {
    GraphBuilder b;
    const Tensor x = b.placeholder("x", DType::f32, {5, 3});
    const Tensor w = b.variable("w", normal({3, 2})), c = b.variable("c", full({2}, 0.0));
    const Tensor loss = b.name("loss", mean(tanh(add(matmul(x, w), c))));
    const TensorList g = b.gradients(loss, {w, c});
    b.group("train", {b.assign(w, sub(w, g[0])), b.assign(c, sub(c, g[1]))});
    b.name("save", save(file, {w, c}));
    b.group("restore", {b.assign(w, restore(file, "w", w.type())), b.assign(c, restore(file, "c", c.type()))});
    graph = b.finish();
  }
};

TEST_F(SavedTensors, ComeBackBitForBitAfterAReset) {
  const Model model(file());
  Containers all;
  Session s(model.graph, all.open("model"));
  const Tensor x = normal({5, 3});
  for (int i = 0; i < 10; ++i) s.run({}, {{"x", x}}, {"train"});
  const auto w = s.run({"w"})[0].to_vector(), c = s.run({"c"})[0].to_vector();
  EXPECT_EQ(s.run({"save"})[0].item(), 8 * 4) << "bytes of eight floats";
  all.reset("model");
  EXPECT_NE(s.run({"w"})[0].to_vector(), w);
  s.run({}, {}, {"restore"});
  EXPECT_EQ(s.run({"w"})[0].to_vector(), w);
  EXPECT_EQ(s.run({"c"})[0].to_vector(), c);
  // And from text, in another container.
  Session again(graph::parse_graph(print(model.graph)));
  again.run({}, {}, {"restore"});
  EXPECT_EQ(again.run({"w", "c"})[0].to_vector(), w);
}

TEST_F(SavedTensors, AreWrittenAsAWholeAndReadableByOthers) {
  const Model model(file());
  Session s(model.graph);
  s.run({"save"});
  s.run({"save"});  // over the old one
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1) << "no temporary file stays behind";
  const auto saved = data::SafetensorsFile::open(file()).value();
  EXPECT_EQ(saved.tensor("w").to_vector(), s.run({"w"})[0].to_vector());
  EXPECT_TRUE(holds(error_of([&] { save(file("no/such/folder.safetensors"), {"x"}, TensorList{one_value(1)}); }),
                    "no/such/folder"));
}

TEST_F(SavedTensors, AreSeenAsTheyWereBeforeTheRunsAssigns) {
  GraphBuilder b;
  const Tensor n = b.variable("n", one_value(1));
  const Target bump = b.assign(n, add(n, one_value(1)), "bump");
  const Tensor saved = b.name("save", save(file(), {n}));
  Session s(b.finish());
  s.run({saved}, {}, {bump});
  EXPECT_EQ(restore(file(), "n", n.type()).item(), 1);
  s.run({saved});
  EXPECT_EQ(restore(file(), "n", n.type()).item(), 2);
}

TEST_F(SavedTensors, AreWrittenInABranchOnlyWhenItIsTaken) {
  GraphBuilder b;
  const Tensor n = b.variable("n", one_value(1));
  const Tensor due = b.placeholder("due", DType::boolean, {});
  b.updates("maybe", [&] {
    cond(
        due, [&] { return TensorList{save(file(), {n})}; }, [&] { return TensorList{full({}, 0.0, DType::i64)}; });
  });
  Session s(b.finish());
  s.run({}, {{"due", one_value(0, DType::boolean)}}, {"maybe"});
  EXPECT_FALSE(fs::exists(file()));
  s.run({}, {{"due", one_value(1, DType::boolean)}}, {"maybe"});
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(SavedTensors, AreRefusedInABranchThatAGradientGoesThrough) {
  GraphBuilder b;
  const Tensor w = b.variable("w", one_value(2));
  const Tensor due = b.placeholder("due", DType::boolean, {});
  const TensorList made = cond(
      due,
      [&] {
        save(file(), {"w"}, TensorList{w});
        return TensorList{w * w};
      },
      [&] { return TensorList{w * 1.0}; });
  EXPECT_TRUE(holds(error_of([&] { b.gradients(made[0], {w}); }),
                    "[cond] expected bodies without effects where a gradient goes through, got save"));
}

TEST_F(SavedTensors, AreOnlyCountedWhereAnotherRankWritesThem) {
  const auto bytes = [&](const char* op) {
    return apply1(find_op(op), TensorList{values({1, 2, 3})}, op::SaveAttrs{Symbol(file()), Symbol("w")}).item();
  };
  EXPECT_EQ(bytes("saved_elsewhere"), 12);
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(bytes("save"), 12);
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(SavedTensors, AreNumberedByAStep) {
  GraphBuilder b;
  const Tensor step = b.placeholder("step", DType::i64, {});
  const Tensor w = b.variable("w", values({1, 2}));
  const std::string pattern = file("model-{step}.safetensors");
  b.assign(w, mul(w, one_value(2)), "double");
  b.name("save", save(pattern, {w}, step));
  b.assign(w, restore(pattern, "w", w.type(), step), "restore");
  Session s(graph::parse_graph(print(b.finish())));
  for (int i = 1; i <= 3; ++i) {
    s.run({}, {}, {"double"});
    s.run({"save"}, {{"step", one_value(i, DType::i64)}});
  }
  EXPECT_TRUE(fs::exists(file("model-2.safetensors")));
  s.run({}, {{"step", one_value(2, DType::i64)}}, {"restore"});
  EXPECT_EQ(s.run({"w"})[0].to_vector(), (std::vector<double>{4, 8}));
  EXPECT_TRUE(holds(error_of([&] {
                      s.run({}, {{"step", one_value(9, DType::i64)}}, {"restore"});
                    }),
                    "model-9.safetensors"));
}

TEST_F(SavedTensors, OfAnotherTypeOrNameAreRefused) {
  save(file(), {"weight", "bias"}, TensorList{zeros({2, 3}), zeros({3}, DType::i64)});
  const std::string shape = error_of([&] { restore(file(), "weight", {DType::f32, {3, 2}}); });
  EXPECT_TRUE(holds(shape, file() + ": expected 'weight' of f32[3, 2], got f32[2, 3]")) << shape;
  EXPECT_TRUE(holds(error_of([&] { restore(file(), "bias", {DType::f32, {3}}); }), "'bias' of f32[3], got i64[3]"));
  EXPECT_TRUE(holds(error_of([&] { restore(file(), "wieght", {DType::f32, {3}}); }), "did you mean 'weight'?"));
  EXPECT_TRUE(holds(error_of([&] { restore(file("none"), "w", {DType::f32, {}}); }), "none"));
}

TEST_F(SavedTensors, ThatAreDamagedAreRefused) {
  save(file(), {"w"}, TensorList{values({1, 2, 3})});
  const auto size = fs::file_size(file());
  const auto flip = [&](std::uintmax_t at) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(byte);
  };
  flip(size - 1);
  const std::string error = error_of([&] { restore(file(), "w", {DType::f32, {3}}); });
  EXPECT_TRUE(holds(error, file() + ": expected 'w' with the checksum") && holds(error, "damaged")) << error;
  flip(size - 1);
  EXPECT_EQ(restore(file(), "w", {DType::f32, {3}}).to_vector(), (std::vector<double>{1, 2, 3}));
  fs::resize_file(file(), size - 4);
  EXPECT_TRUE(holds(error_of([&] { restore(file(), "w", {DType::f32, {3}}); }), "[safetensors] " + file()));
  fs::resize_file(file(), 3);
  EXPECT_TRUE(holds(error_of([&] { restore(file(), "w", {DType::f32, {3}}); }), "[safetensors] " + file()));
}

TEST_F(SavedTensors, NeedNamesThatFit) {
  const TensorList two{one_value(1), one_value(2)};
  EXPECT_TRUE(holds(error_of([&] { save(file(), {"a"}, two); }), "a name for each of 2 tensors, got 1"));
  EXPECT_TRUE(holds(error_of([&] { save(file(), {"a", "a"}, two); }), "distinct names"));
  EXPECT_TRUE(holds(error_of([&] { save(file(), {"a,b"}, two); }), "without commas"));
  EXPECT_TRUE(holds(error_of([&] { save(file(), two); }), "expected variables"));
  EXPECT_TRUE(holds(error_of([&] { save("", {"a", "b"}, two); }), "the name of a file"));
  EXPECT_TRUE(holds(error_of([&] { save(file("{step}"), {"a", "b"}, two); }), "expected a step i64[]"));
  EXPECT_TRUE(holds(error_of([&] { restore(file(), "a", {}, one_value(1, DType::i64)); }), "expected {step}"));
}

}  // namespace
}  // namespace starling::testing
