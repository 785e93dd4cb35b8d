// The small version of every network against PyTorch: tests/zoo/golden/nets.json, made by generate.py there. Weights
// and inputs follow a formula known to both sides.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "starling/starling.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using nlohmann::json;

// Numbers in [0, 1) from the tensor's number and the position in it.
double hashed(std::uint64_t number, std::uint64_t place) {
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
  std::uint64_t h = (place * 2654435761U + (number + 1) * 40503 * 65537) % kWrap;
  h = (h ^ (h >> 15)) * 2246822519U % kWrap;
  h = (h ^ (h >> 13)) * 3266489917U % kWrap;
  return static_cast<double>(h ^ (h >> 16)) / static_cast<double>(kWrap);
}

void fill(const Tensor& tensor, std::uint64_t number, double low, double high) {
  auto* values = tensor.data<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    values[i] = low + (high - low) * hashed(number, static_cast<std::uint64_t>(i));
}

void fill_parameter(const Tensor& tensor, std::uint64_t number) {
  if (tensor.rank() == 1) return fill(tensor, number, -0.1, 0.7);
  const double bound = std::sqrt(3.0 * static_cast<double>(tensor.size(0)) / static_cast<double>(tensor.numel()));
  fill(tensor, number, -bound, bound);
}

Tensor make_field(const zoo::Field& field, std::int64_t batch, std::uint64_t number) {
  Shape shape = field.sample;
  shape.insert(0, batch);
  if (field.below == 0) {
    const Tensor made = empty(shape, DType::f64);
    fill(made, 1000 + number, field.unit ? 0 : -1, 1);
    return made;
  }
  const Tensor made = empty(shape, DType::i64);
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    made.data<std::int64_t>()[i] = static_cast<std::int64_t>(hashed(1000 + number, static_cast<std::uint64_t>(i)) *
                                                             static_cast<double>(field.below));
  }
  return made;
}

// Noise (dropout) is switched off.
zoo::Sized quiet(const std::string& name) {
  zoo::Sized sized = zoo::nets().small(name);
  for (const char* key : {"dropout", "stochastic_depth", "amount"}) {
    if (zoo::has_option(sized.net, key)) sized.net = zoo::with(sized.net, {{key, 0}});
  }
  return sized;
}

json describe(const std::string& name) {
  const zoo::Sized sized = quiet(name);
  const zoo::Recipe recipe = sized.net.make();
  json parameters = json::array(), fields = json::array();
  for (const auto& [key, tensor] : recipe.make()->named_parameters())
    parameters.push_back({key, std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())});
  for (const auto& field : recipe.fields) {
    std::vector<std::int64_t> shape{sized.batch};
    shape.insert(shape.end(), field.sample.begin(), field.sample.end());
    fields.push_back({{"shape", shape}, {"below", field.below}, {"unit", field.unit}});
  }
  return {{"parameters", parameters}, {"fields", fields}, {"options", sized.net.json()}};
}

// STARLING_DUMP_ZOO names the file that generate.py reads.
TEST(ZooGolden, ParametersAreWrittenForTheGenerator) {
  const testing::TemporaryFolder temporary;
  const char* wanted = std::getenv("STARLING_DUMP_ZOO");
  const std::filesystem::path path = wanted ? std::filesystem::path(wanted) : temporary / "zoo.json";
  json all = json::object();
  for (const auto& name : zoo::nets().names()) all[name] = describe(name);
  std::ofstream(path) << all.dump(1);
  EXPECT_GT(std::filesystem::file_size(path), 1000U);
}

const json& golden() {
  static const json read = json::parse(std::ifstream(STARLING_ZOO_GOLDEN));
  return read;
}

class ZooNet : public ::testing::TestWithParam<std::string> {};

TEST_P(ZooNet, AnswersLikeTheSameInPyTorch) {
  ASSERT_TRUE(golden().contains(GetParam())) << "run tests/zoo/golden/generate.py";
  const json& expected = golden()[GetParam()];
  const zoo::Sized sized = quiet(GetParam());
  const zoo::Recipe recipe = sized.net.make();
  const auto net = recipe.make();
  net->to(DType::f64);
  std::uint64_t number = 0;
  for (const auto& parameter : net->parameters()) fill_parameter(parameter, number++);
  std::vector<Tensor> fields;
  for (std::size_t i = 0; i < recipe.fields.size(); ++i) fields.push_back(make_field(recipe.fields[i], sized.batch, i));

  const NoGrad no_grad;
  const Tensor output = (*net)(fields[0]);
  EXPECT_EQ(std::vector<std::int64_t>(output.shape().begin(), output.shape().end()),
            expected["shape"].get<std::vector<std::int64_t>>());
  const auto got = output.to_vector();
  double norm = 0;
  for (const double value : got) norm += value * value;
  const double scale = std::max(1.0, expected["norm"].get<double>());
  EXPECT_NEAR(std::sqrt(norm), expected["norm"].get<double>(), 1e-7 * scale);
  const auto values = expected["values"].get<std::vector<double>>();
  const auto stride = expected["stride"].get<std::size_t>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got.at(i * stride), values[i], 1e-7 * scale) << i;
  if (expected.contains("loss")) {
    EXPECT_NEAR(zoo::loss(recipe, *net, fields).item(), expected["loss"].get<double>(), 1e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooNet, ::testing::ValuesIn(zoo::nets().names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace starling
