#include <filesystem>
#include <nlohmann/json.hpp>

#include "optim/optim_testing.h"
#include "starling/data/formats/safetensors.h"

// Values that tests/golden/generate_optim.py made with PyTorch, or for rules PyTorch lacks, from the papers' formulas.
namespace starling::testing {
namespace {

// The files were made with learning rates of f32.
double rounded(double rate) { return static_cast<double>(static_cast<float>(rate)); }

using nlohmann::json;
constexpr double kExact = 1e-10, kSingle = 1e-5;

data::SafetensorsFile golden() {
  const auto path = std::filesystem::path(STARLING_GOLDEN_FOLDER) / "optim" / "optimizers.safetensors";
  return data::SafetensorsFile::open(path).value();
}

Tensor row(const Tensor& matrix, std::int64_t i, DType dtype) {
  return cast(reshape(narrow(matrix, 0, i, 1), {matrix.size(1)}), dtype);
}

enum class Mode { eager, compiled };

// Runs 100 steps and compares the weights at the shown ones.
void expect_golden(const data::SafetensorsFile& file, const std::string& name, Pair& pair, optim::Optimizer& optimizer,
                   DType dtype, Mode mode) {
  const json shown = json::parse(file.metadata().at("shown"));
  const double pull = json::parse(file.metadata().at("pull")).get<double>();
  const Tensor given = file.tensor("given"), want = file.tensor(name);
  const auto one = [&](const Tensor& g) {
    pair.loss(g, pull).backward();
    optimizer.step();
  };
  auto compiled = compile(one);
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < given.size(0); ++step) {
    mode == Mode::compiled ? compiled(row(given, step, dtype)) : one(row(given, step, dtype));
    if (step + 1 != shown[static_cast<std::size_t>(next)].get<std::int64_t>()) continue;
    ASSERT_LE(relative_difference(pair.values(), row(want, next, DType::f64).to_vector()),
              dtype == DType::f64 ? kExact : kSingle)
        << name << " " << file.metadata().at(name) << " in " << starling::name(dtype)
        << (mode == Mode::compiled ? " compiled" : " eager") << " after " << step + 1 << " steps";
    ++next;
  }
  EXPECT_EQ(next, static_cast<std::int64_t>(shown.size()));
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, TakesTheStepsOfPyTorchOrThePaper) {
  const data::SafetensorsFile file = golden();
  int variants = 0;
  for (const auto& [name, options] : file.metadata()) {
    if (name.rfind(std::string(GetParam()) + "/", 0) != 0) continue;
    ++variants;
    for (const DType dtype : {DType::f64, DType::f32}) {
      for (const Mode mode : {Mode::eager, Mode::compiled}) {
        Pair pair(dtype, file.tensor("start").to_vector());
        const auto optimizer = make_optimizer(GetParam(), options, {{.parameters = pair.list()}});
        optimizer->set_lr(rounded(optimizer->lr()));
        expect_golden(file, name, pair, *optimizer, dtype, mode);
      }
    }
  }
  EXPECT_GE(variants, 3);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Golden,
                         ::testing::Values("sgd", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "adamax", "nadam",
                                           "lamb", "lars", "lion"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Golden, CoverEveryOptimizerOfJobs) {
  const data::SafetensorsFile file = golden();
  for (const auto& kind : optim::optimizer_kinds().names()) EXPECT_TRUE(file.contains(kind + "/0")) << kind;
}

TEST(Golden, GroupsHaveRatesAndDecaysOfTheirOwn) {
  const data::SafetensorsFile file = golden();
  Pair pair(DType::f64, file.tensor("start").to_vector());
  optim::AdamW optimizer(
      std::vector<optim::ParameterGroup>{
          {.parameters = {pair.a}},
          {.parameters = {pair.b}, .lr_scale = rounded(0.03 * 0.3) / rounded(0.03), .weight_decay = 0}},
      {.lr = rounded(0.03), .weight_decay = 0.2});
  const Tensor given = file.tensor("given");
  for (std::int64_t step = 0; step < 100; ++step) {
    pair.loss(row(given, step, DType::f64), 0.1).backward();
    optimizer.step();
  }
  EXPECT_LE(relative_difference(pair.values(), row(file.tensor("groups"), 4, DType::f64).to_vector()), kExact);
}

class SparseGolden : public ::testing::TestWithParam<const char*> {};

// Adam's against SparseAdam: moments of other rows wait.
TEST_P(SparseGolden, RowsOfAGradientAreUpdatedAsPyTorchDoes) {
  const data::SafetensorsFile file = golden();
  const std::string kind = GetParam();
  const std::string lr = kind == "adam" ? "{lr: 0.03, eps: 1.0e-20}" : kind == "adagrad" ? "{lr: 0.1}" : "{lr: 0.05}";
  const Tensor rows = file.tensor("sparse/rows"), values = file.tensor("sparse/values");
  for (const Mode mode : {Mode::eager, Mode::compiled}) {
    Tensor table = parameter("table", file.tensor("sparse/start").to_vector(), {6, 3});
    const auto optimizer = make_optimizer(kind, lr, {{.parameters = {table}}});
    optimizer->set_lr(rounded(optimizer->lr()));
    const auto one = [&](const Tensor& where, const Tensor& what) {
      table.set_grad(row_sparse(where, what, table.shape()));
      optimizer->step();
    };
    auto compiled = compile(one);
    for (std::int64_t step = 0; step < 100; ++step) {
      const Tensor where = cast(reshape(narrow(rows, 0, step, 1), {4}), DType::i64);
      const Tensor what = cast(reshape(narrow(values, 0, step, 1), {4, 3}), DType::f64);
      mode == Mode::compiled ? compiled(where, what) : one(where, what);
    }
    EXPECT_LE(relative_difference(table.to_vector(), file.tensor("sparse/" + kind).to_vector()), kExact) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SparseGolden, ::testing::Values("adam", "adagrad", "sgd"),
                         [](const auto& info) { return std::string(info.param); });

// The same trajectory as if the gradient had been dense.
TEST(SparseGradients, AreMadeDenseWhereARuleNeedsAll) {
  for (const char* kind : {"rmsprop", "lion", "lamb", "lars", "adadelta", "adamax", "nadam"}) {
    std::vector<std::vector<double>> ends;
    for (const bool sparse : {true, false}) {
      Tensor table = parameter("table", std::vector<double>(12, 0.5), {4, 3});
      const auto optimizer = make_optimizer(kind, "{lr: 0.1}", {{.parameters = {table}}});
      for (std::int64_t step = 0; step < 5; ++step) {
        const std::int64_t which[] = {step % 4, 1};
        const Tensor g = row_sparse(from_host<std::int64_t>(which, {2}), full({2, 3}, 0.3, DType::f64), {4, 3});
        table.set_grad(sparse ? g : dense(g));
        optimizer->step();
      }
      ends.push_back(table.to_vector());
    }
    EXPECT_EQ(ends[0], ends[1]) << kind;
  }
}

TEST(Averages, AreThoseOfPyTorch) {
  const data::SafetensorsFile file = golden();
  const Tensor given = file.tensor("given");
  const json shown = json::parse(file.metadata().at("shown"));
  for (const bool equal : {false, true}) {
    const std::string name = equal ? "average/swa" : "average/ema";
    Tensor w = parameter("w", std::vector<double>(17, 3.0), {17});
    optim::WeightAverage average({w}, {.decay = 0.9, .equal_weights = equal});
    auto update = compile([&](const Tensor& now) {
      assign(w, now);
      average.update();
    });
    std::int64_t next = 0;
    for (std::int64_t step = 0; step < 100; ++step) {
      update(row(given, step, DType::f64));
      if (step + 1 != shown[static_cast<std::size_t>(next)].get<std::int64_t>()) continue;
      // Rates are kept in f32.
      EXPECT_LE(
          relative_difference(average.averages()[0].to_vector(), row(file.tensor(name), next, DType::f64).to_vector()),
          1e-6)
          << name << " after " << step + 1;
      ++next;
    }
    EXPECT_EQ(next, 5);
  }
}

TEST(Clipping, ByNormIsThatOfPyTorch) {
  const data::SafetensorsFile file = golden();
  const Tensor given = file.tensor("given");
  for (const auto& [name, p] :
       std::vector<std::pair<std::string, double>>{{"2", 2}, {"1", 1}, {"3", 3}, {"inf", kInfinity}}) {
    Pair pair(DType::f64, file.tensor("start").to_vector());
    pair.loss(row(given, 0, DType::f64), 0).backward();
    std::vector<double> got{optim::clip_gradient_norm(pair.list(), 0.7, p).item()};
    for (const auto& w : pair.list()) {
      for (double g : w.grad().to_vector()) got.push_back(g);
    }
    EXPECT_LE(relative_difference(got, file.tensor("clip/" + name).to_vector()), 1e-9) << name;
  }
}

}  // namespace
}  // namespace starling::testing
