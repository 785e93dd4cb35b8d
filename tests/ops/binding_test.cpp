#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

using TextAttrs = std::vector<std::pair<std::string, std::string>>;

TEST(Binding, CallsByNameWithTextAttributesDoWhatApplyDoes) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f64);
      TextAttrs text;
      for (const auto& field : sample.attrs.type().fields) text.emplace_back(field.name, sample.attrs.print(field));
      const TensorList want = apply(*op, drawn.span(), sample.attrs);
      const TensorList got = call(op->name, drawn.span(), text);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(difference(got[i], want[i]), 0) << describe(*op, sample);
    }
  }
}

TEST(Binding, AttributesOfEveryOpHaveTheTypeItSays) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    for (const auto& sample : op->cases()) EXPECT_EQ(&sample.attrs.type(), op->attrs) << op->name;
  }
}

TEST(Binding, UnknownAttributesAreRefused) {
  const TextAttrs text = {{"no_such_attribute", "1"}};
  const Drawn drawn = draw({{{.shape = {3}}}, op::NoAttrs{}}, DType::f64);
  EXPECT_THROW(call("sum", drawn.span(), text), Error);
}

}  // namespace
}  // namespace starling::testing
