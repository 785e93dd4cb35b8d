#include "starling/train/saved_model/saved_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "starling/base/file/file.h"
#include "starling/base/hash/hash.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/train/saved_model/batch_text.h"
#include "starling/zoo/zoo.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using testing::TestFolder;

std::string read_text(const fs::path& file) { return read_file(file, 1 << 28).value(); }
void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

// A saved LeNet in its own folder.
class SavedModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(3);
    net_ = std::make_unique<nn::Sequential>(zoo::lenet());
    net_->eval();
    signature_.inputs = {{"image", DType::f32, {1, 28, 28}}};
    signature_.outputs = {{"logits", DType::f32, {}}};
    signature_.task = "classify";
    signature_.class_names = {"shirt", "\"shoe\"?", "Mütze"};
    signature_.transforms = nlohmann::json::array({{{"name", "normalise"}}});
    signature_.about = {{"step", 12}};
    save();
  }

  void save() {
    save_model(
        folder(), [this](std::span<const Tensor> in) { return TensorList{(*net_)(in[0])}; }, signature_)
        .value();
  }
  fs::path folder() const { return folder_.path() / "model"; }
  std::string load_error() const {
    auto loaded = SavedModel::load(folder());
    return loaded ? "" : loaded.error();
  }
  ModelManifest manifest() const { return parse_model_manifest(read_text(folder() / "model.json"), "model.json"); }
  // Writes a manifest with valid checksums, as an attacker would.
  void forge(const ModelManifest& manifest) const {
    write_text(folder() / "model.json", format_model_manifest(manifest));
  }
  void forge_file(const std::string& name, const std::string& text) const {
    write_text(folder() / name, text);
    ModelManifest forged = manifest();
    Hash128 hash;
    hash.update(text);
    for (auto& file : forged.files) {
      if (file.name == name) file = {name, text.size(), hash.hex()};
    }
    forge(forged);
  }
  std::string error_of_graph(const std::string& body) {
    forge_file("graph.txt", "starling-graph 1\n" + body);
    return load_error();
  }

  TestFolder folder_{"saved-model"};
  std::unique_ptr<nn::Sequential> net_;
  ModelSignature signature_;
};

TEST_F(SavedModelTest, GivesWhatTheNetworkGivesForEveryBatchSize) {
  SavedModel model = SavedModel::load(folder()).value();
  for (const std::int64_t batch : {1, 2, 3, 17, 64}) {
    const Tensor x = normal({batch, 1, 28, 28});
    const NoGrad no_grad;
    const auto wanted = (*net_)(x).to_vector();
    const auto got = model.run(x).to_vector();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4) << batch;
  }
  EXPECT_EQ(model.run(zeros({0, 1, 28, 28}, DType::f32)).shape(), (Shape{0, 10}));
}

TEST_F(SavedModelTest, KeepsItsSignature) {
  const SavedModel model = SavedModel::load(folder()).value();
  signature_.outputs[0].sample = {10};
  EXPECT_TRUE(model.signature() == signature_);
  EXPECT_EQ(model.parameter_count(), net_->parameter_count());
  EXPECT_NE(read_text(folder() / "graph.txt").find("f32[?, 1, 28, 28] \"image\""), std::string::npos);
}

TEST_F(SavedModelTest, ReplacesAnEarlierModelAndLeavesNothingElseBehind) {
  signature_.class_names = {"other"};
  save();
  EXPECT_EQ(SavedModel::load(folder()).value().signature().class_names, signature_.class_names);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
  write_text(folder_.path() / "file", "");
  const auto refused = save_model(
      folder_.path() / "file", [](std::span<const Tensor> in) { return TensorList{relu(in[0])}; }, signature_);
  EXPECT_FALSE(refused.ok());
}

TEST_F(SavedModelTest, MakesWeightsOfTensorsThatWereCaptured) {
  const Tensor shift = full({1}, 2.5, DType::f32);
  ModelSignature signature;
  signature.inputs = {{"x", DType::f32, {3}}};
  save_model(
      folder(), [&](std::span<const Tensor> in) { return TensorList{in[0] + shift}; }, signature)
      .value();
  SavedModel model = SavedModel::load(folder()).value();
  EXPECT_EQ(model.run(zeros({2, 3}, DType::f32)).to_vector(), std::vector<double>(6, 2.5));
}

TEST_F(SavedModelTest, KeepsConstantsOfSmallWholeNumbers) {
  ModelSignature signature;
  signature.inputs = {{"x", DType::f32, {3}}};
  for (const DType dtype : {DType::i32, DType::i16, DType::i8, DType::u32, DType::u16, DType::u8}) {
    save_model(
        folder(),
        [&](std::span<const Tensor> in) {
          const Tensor table = full({1}, 100, dtype);  // made while tracing: a constant of the graph, or an op of it
          return TensorList{in[0] + cast(table, DType::f32)};
        },
        signature)
        .value();
    SavedModel model = SavedModel::load(folder()).value();
    EXPECT_EQ(model.run(zeros({1, 3}, DType::f32)).to_vector(), std::vector<double>(3, 100)) << name(dtype);
  }
}

TEST_F(SavedModelTest, RefusesToSaveWhatHasEffectsOrNoBatch) {
  Tensor counter = zeros({1}, DType::f32);
  counter.set_name("counter");
  ModelSignature signature;
  signature.inputs = {{"x", DType::f32, {3}}};
  const auto save = [&](const graph::TraceFn& f) { static_cast<void>(save_model(folder(), f, signature)); };
  EXPECT_THROW(save([&](std::span<const Tensor> in) {
                 assign(counter, counter + 1.0);
                 return TensorList{relu(in[0])};
               }),
               Error);
  EXPECT_THROW(save([&](std::span<const Tensor> in) { return TensorList{sum(in[0])}; }), Error);
  EXPECT_EQ(load_error(), "") << "what was there stays";
}

TEST_F(SavedModelTest, RefusesInputsThatDoNotFitByName) {
  SavedModel model = SavedModel::load(folder()).value();
  const auto refused = [&](const Tensor& x) {
    try {
      model.run(x);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused(zeros({2, 1, 28, 27}, DType::f32)).find("'image'"), std::string::npos);
  EXPECT_NE(refused(zeros({2, 1, 28, 28}, DType::f64)).find("f64"), std::string::npos);
  EXPECT_NE(refused(zeros({}, DType::f32)), "");
  EXPECT_NE(refused(Tensor()), "");
}

TEST_F(SavedModelTest, RunsFromSeveralThreads) {
  SavedModel model = SavedModel::load(folder(), {.threads = 1, .cache = 2}).value();
  const Tensor x = normal({4, 1, 28, 28});
  const auto wanted = model.run(x).to_vector();
  std::vector<std::thread> threads;
  std::vector<char> same(4, 0);
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      bool all = true;
      for (int i = 0; i < 5; ++i) {
        model.run(zeros({static_cast<std::int64_t>(t) + 1, 1, 28, 28}, DType::f32));
        all = all && model.run(x).to_vector() == wanted;
      }
      same[t] = all ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<char>(4, 1));
}

TEST_F(SavedModelTest, RefusesEveryTruncationAndDamageOfEveryFile) {
  for (const char* name : {"model.json", "graph.txt", "weights.safetensors"}) {
    const std::string whole = read_text(folder() / name);
    for (std::size_t share = 0; share < 20; ++share) {
      write_text(folder() / name, whole.substr(0, whole.size() * share / 20));
      EXPECT_NE(load_error(), "") << name << " " << share;
      std::string damaged = whole;
      damaged[whole.size() * share / 20] ^= 4;
      write_text(folder() / name, damaged);
      EXPECT_NE(load_error(), "") << name << " " << share;
    }
    write_text(folder() / name, whole + "x");
    EXPECT_NE(load_error(), "") << name;
    write_text(folder() / name, whole);
    ASSERT_EQ(load_error(), "");
  }
  fs::remove(folder() / "weights.safetensors");
  EXPECT_NE(load_error(), "");
}

TEST_F(SavedModelTest, RefusesNamesThatLeadOutOfItsFolder) {
  const ModelManifest good = manifest();
  fs::copy_file(folder() / "graph.txt", folder_.path() / "graph.txt");
  for (const std::string& name :
       {std::string("../graph.txt"), (folder_.path() / "graph.txt").string(), std::string("./graph.txt"),
        std::string("a/../graph.txt"), std::string(""), std::string("graph.txt\0x", 11)}) {
    ModelManifest forged = good;
    forged.graph = name;
    forged.files[0].name = name;
    forge(forged);
    EXPECT_NE(load_error().find("[path]"), std::string::npos) << name << load_error();
  }
  forge(good);
  fs::remove(folder() / "graph.txt");
  fs::create_symlink(folder_.path() / "graph.txt", folder() / "graph.txt");
  EXPECT_NE(load_error(), "") << "a symbolic link";
  fs::remove(folder() / "graph.txt");
  fs::create_hard_link(folder_.path() / "graph.txt", folder() / "graph.txt");
  EXPECT_NE(load_error(), "") << "a hard link";
}

TEST_F(SavedModelTest, RefusesAFileThatIsNotListedAndAnotherVersion) {
  ModelManifest forged = manifest();
  forged.weights = "model.json";
  forge(forged);
  EXPECT_NE(load_error().find("among its files"), std::string::npos) << load_error();
  std::string text = read_text(folder() / "model.json");
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  write_text(folder() / "model.json", text);
  EXPECT_NE(load_error().find("version 1, got 2"), std::string::npos) << load_error();
  write_text(folder() / "model.json", std::string(100'000, '['));
  EXPECT_NE(load_error(), "");
}

TEST_F(SavedModelTest, RefusesGraphsThatDoMoreThanCompute) {
  const std::string ends = "return %0\n";
  EXPECT_NE(error_of_graph("%0 = restore {file=\"/etc/passwd\", name=\"x\", shape=[1, 10]} : f32[1, 10]\n" + ends)
                .find("does nothing else"),
            std::string::npos)
      << load_error();
  EXPECT_NE(error_of_graph("variable 0 \"fc2.bias\" f32[10]\n"
                           "%0 = input {shape=[?, 1, 28, 28]} : f32[?, 1, 28, 28] \"image\"\n"
                           "%1 = variable {index=0, shape=[10]} : f32[10]\nassign(%1) {index=0}\n" +
                           ends)
                .find("does nothing else"),
            std::string::npos)
      << load_error();
}

TEST_F(SavedModelTest, RefusesGraphsThatLieAboutSizesOrGoInCircles) {
  const std::string input = "%0 = input {shape=[?, 1, 28, 28]} : f32[?, 1, 28, 28] \"image\"\n";
  EXPECT_NE(error_of_graph(input + "%1 = relu(%2)\n%2 = relu(%1)\nreturn %2\n").find("made above"), std::string::npos);
  EXPECT_NE(error_of_graph(input + "%1 = relu(%1)\nreturn %1\n").find("made above"), std::string::npos);
  EXPECT_NE(error_of_graph("%0 = input {shape=[9223372036854775807?]}\nreturn %0\n"), "");
  EXPECT_NE(error_of_graph(input + "%1 = full {shape=[1000000, 1000000, 1000]} : f32[1000000, 1000000, 1000]\n"
                                   "return %1\n")
                .find("bytes in all"),
            std::string::npos)
      << load_error();
  EXPECT_NE(error_of_graph(input + "return %0\n").find("as the signature says"), std::string::npos) << load_error();
  EXPECT_NE(error_of_graph("variable 0 \"nothing\" f32[10]\n%0 = input {shape=[?, 1, 28, 28]} : f32[?, 1, 28, 28] "
                           "\"image\"\n%1 = variable {index=0, shape=[10]}\n%2 = flatten(%0)\nreturn %2\n"),
            "");
  EXPECT_NE(error_of_graph(std::string(100'000, '%')), "");
}

TEST_F(SavedModelTest, RefusesASignatureThatLiesAboutSizes) {
  const ModelManifest good = manifest();
  ModelManifest forged = good;
  forged.signature.inputs[0].sample = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  forge(forged);
  EXPECT_NE(load_error(), "");
  forged = good;
  forged.signature.outputs[0].sample = {11};
  forge(forged);
  EXPECT_NE(load_error().find("as the signature says"), std::string::npos) << load_error();
  forged = good;
  forged.signature.inputs.push_back(forged.signature.inputs[0]);
  forge(forged);
  EXPECT_NE(load_error().find("again"), std::string::npos) << load_error();
}

}  // namespace
}  // namespace starling::train
