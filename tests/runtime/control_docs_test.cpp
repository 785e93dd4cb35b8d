#include <fstream>
#include <sstream>

#include "runtime/control_testing.h"

namespace starling::runtime {
namespace {

using testing::everywhere;
using testing::numbers;

// The code of docs/control_flow.md, as it stands there.

// Newton's iteration: as many trips as the data needs.
Tensor square_root(const Tensor& a) {
  return while_loop([&](const TensorList& s) { return any(abs(s[0] * s[0] - a) > 1e-6); },
                    [&](const TensorList& s) { return TensorList{(s[0] + a / s[0]) * 0.5}; }, {a})[0];
}

// Only the branch taken runs.
Tensor shrink(const Tensor& x, double most) {
  const Tensor size = norm(x);
  return cond(
      size > most, [&] { return TensorList{x * (most / size)}; }, [&] { return TensorList{x}; })[0];
}

// A recurrent network: x [time, batch, features]; every state, [time, batch, hidden].
Tensor recurrent(const Tensor& x, const Tensor& h, const Tensor& w, const Tensor& u) {
  const auto step = [&](const TensorList& carry, const TensorList& slice) {
    const Tensor next = tanh(matmul(carry[0], w) + matmul(slice[0], u));
    return std::pair{TensorList{next}, TensorList{next}};
  };
  return scan(step, {h}, {x}).second[0];
}

TEST(ControlDocs, HaveCodeThatDoesWhatTheySay) {
  const auto roots =
      everywhere([](std::span<const Tensor> in) { return TensorList{square_root(in[0])}; }, {numbers({4, 9, 2}, {3})});
  EXPECT_NEAR(roots[0].to_vector()[1], 3, 1e-6);
  const auto shrunk = [](std::span<const Tensor> in) { return TensorList{shrink(in[0], 5)}; };
  EXPECT_NEAR(everywhere(shrunk, {numbers({6, 8}, {2})})[0].to_vector()[0], 3, 1e-12);
  EXPECT_EQ(everywhere(shrunk, {numbers({3, 0}, {2})})[0].to_vector()[0], 3);
  const auto net = [](std::span<const Tensor> in) { return TensorList{recurrent(in[0], in[1], in[2], in[3])}; };
  const auto states = everywhere(net, {full({4, 2, 3}, 0.1, DType::f64), zeros({2, 5}, DType::f64),
                                       full({5, 5}, 0.2, DType::f64), full({3, 5}, 0.3, DType::f64)});
  EXPECT_EQ(to_string(states[0].shape()), "[4, 2, 5]");
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ControlDocs, ShowTheCodeThatIsTestedHere) {
  const std::string tree = STARLING_SOURCE_FOLDER;
  const std::string text = contents(tree + "/docs/control_flow.md");
  const std::string here = contents(tree + "/tests/runtime/control_docs_test.cpp");
  const auto begin = text.find("```cpp\n"), end = text.find("```\n", begin + 7);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  EXPECT_NE(here.find(text.substr(begin + 7, end - begin - 7)), std::string::npos);
}

}  // namespace
}  // namespace starling::runtime
