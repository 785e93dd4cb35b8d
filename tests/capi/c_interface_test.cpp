#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "starling/capi/starling_c.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/random.h"
#include "starling/optim/sgd.h"
#include "starling/runtime/compile.h"
#include "starling/zoo/zoo.h"

// The C interface against the C++ that it stands on.
namespace starling {
namespace {

starling_tensor* f32(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  starling_tensor* made = nullptr;
  EXPECT_EQ(starling_tensor_new(STARLING_F32, shape.data(), static_cast<int>(shape.size()), values.data(), &made),
            STARLING_OK)
      << starling_error();
  return made;
}

std::vector<float> floats(const starling_tensor* tensor) {
  std::size_t bytes = 0;
  EXPECT_EQ(starling_tensor_bytes(tensor, &bytes), STARLING_OK);
  std::vector<float> values(bytes / sizeof(float));
  EXPECT_EQ(starling_tensor_read(tensor, values.data(), bytes), STARLING_OK) << starling_error();
  return values;
}

TEST(CInterface, TensorsKeepTypesShapesAndValues) {
  starling_tensor* x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  starling_dtype dtype{};
  std::int64_t shape[8] = {};
  int rank = 0;
  EXPECT_EQ(starling_tensor_dtype(x, &dtype), STARLING_OK);
  EXPECT_EQ(starling_tensor_shape(x, shape, 8, &rank), STARLING_OK);
  EXPECT_EQ(dtype, STARLING_F32);
  EXPECT_EQ(std::vector<std::int64_t>(shape, shape + rank), (std::vector<std::int64_t>{2, 3}));
  const std::vector<float> other{6, 5, 4, 3, 2, 1};
  EXPECT_EQ(starling_tensor_write(x, other.data(), sizeof(float) * 6), STARLING_OK);
  EXPECT_EQ(floats(x), other);
  starling_tensor_free(x);
}

TEST(CInterface, OpsByNameTakeAttributesAsText) {
  starling_tensor* x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  starling_tensor* sums = nullptr;
  int made = 0;
  ASSERT_EQ(starling_op("sum", &x, 1, "axes: [0], keepdim: true", &sums, 1, &made), STARLING_OK) << starling_error();
  std::int64_t shape[8] = {};
  int rank = 0;
  EXPECT_EQ(starling_tensor_shape(sums, shape, 8, &rank), STARLING_OK);
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(floats(sums), (std::vector<float>{5, 7, 9}));
  starling_tensor_free(x);
  EXPECT_EQ(floats(sums).size(), 3U);  // handles own what they name
  starling_tensor_free(sums);
}

TEST(CInterface, GradientsAreThoseOfTheProduct) {
  starling_tensor* x = f32({3}, {1, 2, 3});
  ASSERT_EQ(starling_tensor_requires_grad(x, 1), STARLING_OK);
  starling_tensor *square = nullptr, *total = nullptr, *gradient = nullptr;
  int made = 0;
  starling_tensor* both[] = {x, x};
  ASSERT_EQ(starling_op("mul", both, 2, nullptr, &square, 1, &made), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_op("sum", &square, 1, "", &total, 1, &made), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_tensor_grad(x, &gradient), STARLING_OK);
  EXPECT_EQ(gradient, nullptr);
  ASSERT_EQ(starling_tensor_backward(total), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_tensor_grad(x, &gradient), STARLING_OK);
  EXPECT_EQ(floats(gradient), (std::vector<float>{2, 4, 6}));
  for (auto* each : {x, square, total, gradient}) starling_tensor_free(each);
}

TEST(CInterface, MistakesAreStatusesWithText) {
  starling_tensor* x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  starling_tensor* out = nullptr;
  starling_module* net = nullptr;
  int made = -1;
  const auto expect = [](starling_status got, starling_status want, const std::string& text) {
    EXPECT_EQ(got, want);
    EXPECT_NE(std::string(starling_error()).find(text), std::string::npos) << starling_error();
  };
  starling_tensor* both[] = {x, x};
  expect(starling_op("matmul", both, 2, nullptr, &out, 1, &made), STARLING_ERROR, "expected inner sizes");
  expect(starling_op("summ", &x, 1, nullptr, &out, 1, &made), STARLING_ERROR, "sum");
  expect(starling_op("sum", &x, 1, "axis_: 3", &out, 1, &made), STARLING_ERROR, "axes");
  expect(starling_op("sum", &x, 1, "{", &out, 1, &made), STARLING_ERROR, "sum");
  expect(starling_op(nullptr, &x, 1, nullptr, &out, 1, &made), STARLING_BAD_ARGUMENT, "the name of an op");
  expect(starling_op("sum", &x, 1, nullptr, &out, 0, &made), STARLING_BAD_ARGUMENT, "room for 1 results, got 0");
  expect(starling_tensor_read(x, &made, 4), STARLING_BAD_ARGUMENT, "24 bytes");
  expect(starling_tensor_new(static_cast<starling_dtype>(99), nullptr, 0, nullptr, &out), STARLING_BAD_ARGUMENT, "99");
  expect(starling_tensor_new(STARLING_F32, nullptr, 9, nullptr, &out), STARLING_BAD_ARGUMENT, "rank");
  const std::int64_t huge[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  expect(starling_tensor_new(STARLING_F32, huge, 2, nullptr, &out), STARLING_ERROR, "expected");
  expect(starling_zoo("lenett", nullptr, &net), STARLING_ERROR, "lenet");
  expect(starling_zoo("lenet", "classes: many", &net), STARLING_ERROR, "classes");
  expect(starling_module_load(nullptr, "x"), STARLING_BAD_ARGUMENT, "a module");
  EXPECT_EQ(made, -1);
  EXPECT_EQ(out, nullptr);
  starling_tensor_free(x);
  starling_tensor_free(nullptr);
}

TEST(CInterface, NullsAtTheEndOfInputsAreLeftOut) {
  starling_tensor* x = f32({1, 2}, {1, 2});
  starling_tensor* weight = f32({3, 2}, {1, 0, 0, 1, 1, 1});
  starling_tensor* out = nullptr;
  int made = 0;
  starling_tensor* without_bias[] = {x, weight, nullptr};
  ASSERT_EQ(starling_op("linear", without_bias, 3, nullptr, &out, 1, &made), STARLING_OK) << starling_error();
  EXPECT_EQ(floats(out), (std::vector<float>{1, 2, 3}));
  starling_tensor* hole[] = {x, nullptr, weight};
  EXPECT_EQ(starling_op("linear", hole, 3, nullptr, &out, 1, &made), STARLING_BAD_ARGUMENT);
  EXPECT_STREQ(starling_error(), "[linear] expected a tensor as input 1, got null");
  for (auto* each : {x, weight, out}) starling_tensor_free(each);
}

TEST(CInterface, OptionsMayEndWithALineOrAComment) {
  for (const char* options :
       {"axes: [0], keepdim: true\n", "axes: [0], keepdim: true  # a row", "\naxes: [0], keepdim: true",
        "axes: [0]\nkeepdim: true\n", "{axes: [0], keepdim: true}\n"}) {
    starling_tensor* x = f32({2, 2}, {1, 2, 3, 4});
    starling_tensor* sums = nullptr;
    int made = 0, rank = 0;
    ASSERT_EQ(starling_op("sum", &x, 1, options, &sums, 1, &made), STARLING_OK) << options << ": " << starling_error();
    EXPECT_EQ(starling_tensor_shape(sums, nullptr, 0, &rank), STARLING_OK);
    EXPECT_EQ(rank, 2) << options;
    EXPECT_EQ(floats(sums), (std::vector<float>{4, 6}));
    for (auto* each : {x, sums}) starling_tensor_free(each);
  }
  starling_module* net = nullptr;
  EXPECT_EQ(starling_zoo("lenet", "# all at their defaults", &net), STARLING_OK) << starling_error();
  starling_module_free(net);
}

TEST(CInterface, MemoryThatIsNotThereHasAStatusOfItsOwn) {
  const std::int64_t sizes[] = {std::int64_t{1} << 50};  // more than any machine has, less than overflows
  starling_tensor* made = nullptr;
  EXPECT_EQ(starling_tensor_new(STARLING_F32, sizes, 1, nullptr, &made), STARLING_OUT_OF_MEMORY) << starling_error();
  EXPECT_NE(std::string(starling_error()).find("[allocator] expected"), std::string::npos) << starling_error();
  EXPECT_EQ(made, nullptr);
}

TEST(CInterface, ViewsAreReadButNotWritten) {
  starling_tensor* x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  starling_tensor* turned = nullptr;
  int made = 0;
  ASSERT_EQ(starling_op("transpose", &x, 1, "order: [1, 0]", &turned, 1, &made), STARLING_OK) << starling_error();
  const std::vector<float> values = floats(turned);
  EXPECT_EQ(values, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(starling_tensor_write(turned, values.data(), 24), STARLING_ERROR);
  for (auto* each : {x, turned}) starling_tensor_free(each);
}

TEST(CInterface, TextsOfErrorsBelongToTheirThreads) {
  EXPECT_EQ(starling_module_mode(nullptr, 1), STARLING_BAD_ARGUMENT);
  const std::string mine = starling_error();
  std::string theirs = "not asked";
  std::thread([&] { theirs = starling_error(); }).join();
  EXPECT_EQ(theirs, "");
  EXPECT_EQ(mine, starling_error());
}

// The same steps of LeNet in C++, compiled, from the same seed.
std::vector<double> losses_in_cpp(const Tensor& images, const Tensor& labels, int steps) {
  manual_seed(5);
  auto net = zoo::nets().by_name("lenet").make().make();
  optim::Sgd rule(net->parameters(), {.lr = 0.05, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy((*net)(x), y);
    loss.backward();
    rule.step();
    return loss;
  });
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(step(images, labels).item());
  return losses;
}

TEST(CInterface, ALenetTrainsToTheBitsOfCpp) {
  manual_seed(9);
  const Tensor images = uniform({8, 1, 28, 28});
  const Tensor labels = randint({8}, {0, 10, DType::i64});
  starling_tensor* fields[2] = {};
  const std::int64_t image_shape[] = {8, 1, 28, 28}, label_shape[] = {8};
  ASSERT_EQ(starling_tensor_new(STARLING_F32, image_shape, 4, images.raw(), &fields[0]), STARLING_OK);
  ASSERT_EQ(starling_tensor_new(STARLING_I64, label_shape, 1, labels.raw(), &fields[1]), STARLING_OK);
  const auto want = losses_in_cpp(images, labels, 6);

  ASSERT_EQ(starling_seed(5), STARLING_OK);
  starling_module* net = nullptr;
  starling_optimizer* rule = nullptr;
  starling_step* step = nullptr;
  ASSERT_EQ(starling_zoo("lenet", nullptr, &net), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_optimizer_new("sgd", net, "lr: 0.05, momentum: 0.9", &rule), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_step_new(net, rule, "classify", &step), STARLING_OK) << starling_error();
  starling_optimizer_free(rule);  // the step keeps it
  starling_module_free(net);
  std::vector<double> got;
  for (int i = 0; i < 6; ++i) {
    double loss = 0;
    ASSERT_EQ(starling_step_run(step, fields, 2, &loss), STARLING_OK) << starling_error();
    got.push_back(loss);
  }
  EXPECT_EQ(got, want);
  EXPECT_LT(got.back(), got.front());
  starling_step_free(step);
  for (auto* field : fields) starling_tensor_free(field);
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("starling_c." + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(CInterface, SavedTensorsComeBack) {
  const Folder folder;
  const std::string weights = folder.path / "net.safetensors", model = folder.path / "model";
  const std::int64_t sample[] = {4};
  const char* layers = "- linear: {out: 8}\n- dropout: {p: 0.5}\n- tanh: {}\n- linear: {out: 3}\n";
  starling_module *one = nullptr, *two = nullptr;
  ASSERT_EQ(starling_declared(layers, sample, 1, &one), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_declared(layers, sample, 1, &two), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_module_save(one, weights.c_str()), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_module_load(two, weights.c_str()), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_model_save(one, sample, 1, model.c_str()), STARLING_OK) << starling_error();

  starling_tensor* x = f32({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  starling_tensor *eager = nullptr, *compiled = nullptr, *loaded = nullptr;
  starling_function* function = nullptr;
  starling_model* saved = nullptr;
  int made = 0;
  ASSERT_EQ(starling_module_mode(one, 0), STARLING_OK);
  ASSERT_EQ(starling_module_call(one, &x, 1, &eager, 1, &made), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_compile(two, &function), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_function_run(function, &x, 1, &compiled, 1, &made), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_model_load(model.c_str(), &saved), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_model_run(saved, &x, 1, &loaded, 1, &made), STARLING_OK) << starling_error();
  const auto want = floats(eager), second = floats(compiled), third = floats(loaded);
  ASSERT_EQ(want.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(want[i], second[i], 1e-6);
    EXPECT_NEAR(want[i], third[i], 1e-6);
  }
  starling_module* other = nullptr;
  ASSERT_EQ(starling_declared("- linear: {out: 5}\n", sample, 1, &other), STARLING_OK) << starling_error();
  EXPECT_EQ(starling_module_load(other, weights.c_str()), STARLING_ERROR);
  for (auto* each : {x, eager, compiled, loaded}) starling_tensor_free(each);
  for (auto* each : {one, two, other}) starling_module_free(each);
  starling_function_free(function);
  starling_model_free(saved);
}

TEST(CInterface, TensorsOfAModuleAreFoundByName) {
  const std::int64_t sample[] = {4};
  starling_module* net = nullptr;
  ASSERT_EQ(starling_declared("- {linear: {out: 3}, name: fc}\n", sample, 1, &net), STARLING_OK) << starling_error();
  std::vector<std::string> names;
  const char* name = nullptr;
  for (int i = 0; starling_module_name(net, i, &name) == STARLING_OK && name; ++i) names.emplace_back(name);
  ASSERT_EQ(names.size(), 2U);
  starling_tensor* weight = nullptr;
  ASSERT_EQ(starling_module_tensor(net, names[0].c_str(), &weight), STARLING_OK) << starling_error();
  EXPECT_EQ(floats(weight).size() % 3, 0U);
  EXPECT_EQ(starling_module_tensor(net, "nope", &weight), STARLING_ERROR);
  std::int64_t count = 0;
  EXPECT_EQ(starling_module_parameters(net, &count), STARLING_OK);
  EXPECT_EQ(count, 15);
  starling_tensor_free(weight);
  starling_module_free(net);
}

// Results of a network for a batch of ones, called by `call`.
template <class Call>
std::vector<float> of_ones(const Call& call) {
  starling_tensor* x = f32({64, 256}, std::vector<float>(64 * 256, 1.0F));
  starling_tensor* y = nullptr;
  int made = 0;
  EXPECT_EQ(call(&x, &y, &made), STARLING_OK) << starling_error();
  const auto values = floats(y);
  for (auto* each : {x, y}) starling_tensor_free(each);
  return values;
}

// How many values the dropout at the end of a network has set to zero: none in evaluation mode.
std::int64_t dropped(starling_module* net) {
  const auto values = of_ones([&](auto* x, auto* y, int* made) { return starling_module_call(net, x, 1, y, 1, made); });
  return std::count(values.begin(), values.end(), 0.0F);
}

TEST(CInterface, FunctionsOfOneModuleOnSeveralThreadsLeaveItsModeAlone) {
  const std::int64_t sample[] = {256};
  starling_module* net = nullptr;
  ASSERT_EQ(starling_declared("- linear: {out: 256}\n- dropout: {p: 0.5}\n", sample, 1, &net), STARLING_OK);
  std::latch begin(2);
  const auto evaluate = [&] {
    starling_function* function = nullptr;
    EXPECT_EQ(starling_compile(net, &function), STARLING_OK) << starling_error();
    const auto run = [&](auto* x, auto* y, int* made) { return starling_function_run(function, x, 1, y, 1, made); };
    const auto first = of_ones(run);
    begin.arrive_and_wait();
    for (int i = 0; i < 200; ++i) EXPECT_EQ(of_ones(run), first);
    starling_function_free(function);
  };
  std::thread one(evaluate), two(evaluate);
  one.join();
  two.join();
  EXPECT_GT(dropped(net), 0);  // still in training mode
  ASSERT_EQ(starling_module_mode(net, 0), STARLING_OK);
  EXPECT_EQ(dropped(net), 0);
  starling_module_free(net);
}

TEST(CInterface, NullAmongTheInputsOfAModuleIsABadArgument) {
  const std::int64_t sample[] = {4};
  starling_module* net = nullptr;
  starling_optimizer* rule = nullptr;
  starling_step* step = nullptr;
  starling_tensor *nothing[] = {nullptr, nullptr}, *out = nullptr;
  int made = 0;
  ASSERT_EQ(starling_declared("- linear: {out: 3}\n", sample, 1, &net), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_optimizer_new("sgd", net, nullptr, &rule), STARLING_OK) << starling_error();
  ASSERT_EQ(starling_step_new(net, rule, "classify", &step), STARLING_OK) << starling_error();
  EXPECT_EQ(starling_module_call(net, nothing, 1, &out, 1, &made), STARLING_BAD_ARGUMENT);
  EXPECT_EQ(starling_step_run(step, nothing, 2, nullptr), STARLING_BAD_ARGUMENT);
  starling_step_free(step);
  starling_optimizer_free(rule);
  starling_module_free(net);
}

TEST(CInterface, ALoaderKeepsABatchThatCouldNotBeHandedOut) {
  starling_loader* loader = nullptr;
  ASSERT_EQ(starling_loader_new("name: synthetic, train_samples: 8", "train", 4, 1, 1, &loader), STARLING_OK);
  starling_tensor* fields[4] = {};
  int made = 0, batches = 0;
  EXPECT_EQ(starling_loader_next(loader, fields, 0, &made), STARLING_BAD_ARGUMENT);
  EXPECT_EQ(starling_loader_next(loader, fields, 4, nullptr), STARLING_BAD_ARGUMENT);
  while (starling_loader_next(loader, fields, 4, &made) == STARLING_OK && made > 0) {
    for (int i = 0; i < made; ++i) starling_tensor_free(fields[i]);
    ++batches;
  }
  EXPECT_EQ(batches, 2);
  starling_loader_free(loader);
}

TEST(CInterface, LoadersGoThroughAnEpoch) {
  starling_loader* loader = nullptr;
  ASSERT_EQ(starling_loader_new("name: synthetic, train_samples: 10", "train", 4, 1, 1, &loader), STARLING_OK)
      << starling_error();
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::int64_t rows = 0;
    int made = 0;
    starling_tensor* fields[4] = {};
    while (starling_loader_next(loader, fields, 4, &made) == STARLING_OK && made > 0) {
      std::int64_t shape[8] = {};
      int rank = 0;
      EXPECT_EQ(starling_tensor_shape(fields[0], shape, 8, &rank), STARLING_OK);
      rows += shape[0];
      for (int i = 0; i < made; ++i) starling_tensor_free(fields[i]);
    }
    EXPECT_EQ(rows, 10);
  }
  starling_loader_free(loader);
  EXPECT_EQ(starling_loader_new("name: synthetic", "nope", 4, 1, 1, &loader), STARLING_ERROR);
}

}  // namespace
}  // namespace starling
