#include <gtest/gtest.h>

#include <limits>

#include "ops/op_checks.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/views.h"
#include "starling/ops/api/vision.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// True if a call is refused; anything but an Error or a result fails the test.
bool refuses(const OpDef& op, std::span<const Tensor> in, const Attrs& attrs, const std::string& what) {
  try {
    apply(op, in, attrs);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("[", 0), 0u) << error.what();
    return true;
  } catch (const std::exception& error) {
    ADD_FAILURE() << describe(op, {}) << " with " << what << " threw " << error.what();
    return true;
  }
}

struct Tally {
  int refused = 0;
  int tried = 0;
  void operator+=(bool was_refused) {
    refused += was_refused;
    ++tried;
  }
};

// Every operand in turn gets a dimension more, a size more, another dtype.
Tally spoil_operands(const OpDef& op, const OpCase& sample) {
  Tally tally;
  const Drawn good = draw(sample, DType::f32);
  const Attrs attrs = attrs_for(sample, DType::f32);
  for (std::size_t i = 0; i < good.in.size(); ++i) {
    Drawn bad = good;
    const Shape shape = good.in[i].shape();
    const auto with = [&](const Shape& s, DType dtype, const char* what) {
      bad.in[i] = ones(s, dtype);
      tally += refuses(op, bad.span(), attrs, what);
    };
    Shape longer = shape;
    longer.insert(0, 7);
    with(longer, good.in[i].dtype(), "a dimension more");
    if (shape.rank() > 0) {
      Shape larger = shape;
      larger[shape.rank() - 1] += 3;
      with(larger, good.in[i].dtype(), "a larger size");
      Shape shorter = shape;
      shorter.erase(0);
      with(shorter, good.in[i].dtype(), "a dimension less");
      Shape none = shape;
      none[0] = 0;
      with(none, good.in[i].dtype(), "no elements");
    }
    for (DType dtype : {DType::boolean, DType::i64, DType::u8, DType::f64, DType::bf16})
      with(shape, dtype, "another dtype");
  }
  return tally;
}

TEST(Misuse, WrongOperandsAreRefusedOrServedByEveryOp) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    Tally tally;
    bool takes_operands = false;
    for (const auto& sample : op->cases()) {
      takes_operands = takes_operands || !sample.in.empty();
      const Tally one = spoil_operands(*op, sample);
      tally.refused += one.refused;
      tally.tried += one.tried;
    }
    // An op of one operand may well take whatever it is given, and so may a view beside its other operands.
    const bool takes_anything = op->inputs.size() == 1 || op->view;
    if (takes_operands && !takes_anything) {
      EXPECT_GT(tally.refused, 0) << op->name << " refused none of " << tally.tried;
    }
  }
}

TEST(Misuse, WrongNumbersOfOperandsAreRefused) {
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    const OpCase sample = op->cases()[0];
    Drawn drawn = draw(sample, DType::f32);
    const Attrs attrs = attrs_for(sample, DType::f32);
    EXPECT_TRUE(drawn.in.empty() || refuses(*op, {}, attrs, "no operands")) << op->name;
    if (op->variadic()) continue;
    while (static_cast<int>(drawn.in.size()) <= op->max_inputs()) drawn.in.push_back(zeros({2}));
    EXPECT_TRUE(refuses(*op, drawn.span(), attrs, "many operands")) << op->name;
  }
}

TEST(Misuse, OfAReductionByAWordThatIsNoneIsRefusedWithThoseThatAre) {
  Attrs attrs = op::AllReduceAttrs{};
  attrs.set("reduce", "\"mean\"");
  EXPECT_EQ(attrs.as<op::AllReduceAttrs>().reduce, ReduceOp::mean);
  EXPECT_EQ(attrs.print(), "reduce=\"mean\"");
  std::string refused;
  try {
    attrs.set("reduce", "\"median\"");
  } catch (const Error& error) {
    refused = error.what();
  }
  EXPECT_NE(refused.find("[attrs] expected sum, mean, max, min or product for 'reduce', got 'median'"),
            std::string::npos)
      << refused;
  EXPECT_EQ(attrs.as<op::AllReduceAttrs>().reduce, ReduceOp::mean);
}

// Attributes drawn from numbers that break sums, products and loops when nobody checks them.
TEST(Misuse, WildAttributesAreRefusedOrServedByEveryOp) {
  std::mt19937 random(3);
  for (const auto* op : tested_ops()) {
    if (!op->cases) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f32);
      for (const auto& field : sample.attrs.type().fields) {
        const std::vector<std::string> texts = {"-1",
                                                "0",
                                                "3",
                                                "[]",
                                                "[-1]",
                                                "[0]",
                                                "[3, 2]",
                                                "[-3, 5]",
                                                "[0, 0]",
                                                "[9, 9, 9, 9]",
                                                "[4294967296, 4294967296, 4294967296]",
                                                "true",
                                                "false",
                                                "i64",
                                                "bool",
                                                "\"relu\"",
                                                "\"x\"",
                                                "9223372036854775807",
                                                "-9223372036854775808"};
        for (const auto& text : texts) {
          Attrs attrs = attrs_for(sample, DType::f32);
          try {
            attrs.set(field.name, text);
          } catch (const Error&) {
            continue;
          }
          refuses(*op, drawn.span(), attrs, std::string(field.name) + "=" + text);
        }
      }
    }
  }
}

TEST(Misuse, LabelsOutOfRangeNameRowAndLabel) {
  const Tensor logits = zeros({3, 4});
  const std::int64_t labels[] = {0, 4, 1};
  try {
    cross_entropy(logits, from_host<std::int64_t>(labels, {3}));
    FAIL() << "a label of 4 among 4 classes was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("row 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("4"), std::string::npos) << error.what();
  }
}

TEST(Misuse, AttributesOfAnotherOpAreRefused) {
  for (const char* name : {"leaky_relu", "relu", "sum"}) {
    try {
      apply(find_op(name), {zeros({3})}, op::ShapeAttrs{{3}});
      FAIL() << name << " took the attributes of another op";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), fmt::format("[{}] expected its own attributes, got others", name));
    }
  }
  EXPECT_THROW(apply(find_op("leaky_relu"), {zeros({3})}), Error);
}

TEST(Misuse, RegionsOfNoChannelsTakeNoTimeButAreChecked) {
  const Tensor x = zeros({1, 0, 4, 4}), boxes = zeros({1, 4});
  const std::int64_t first[] = {0}, beyond[] = {1};
  const op::RoiAlignAttrs huge{.size = {1 << 20, 1 << 20}, .sampling_ratio = 1};
  const Shape want{1, 0, 1 << 20, 1 << 20};
  EXPECT_EQ(roi_align(x, boxes, from_host<std::int64_t>(first, {1}), huge).shape(), want);
  EXPECT_THROW(roi_align(x, boxes, from_host<std::int64_t>(beyond, {1}), huge), Error);
}

// The shape alone must not be walked as if it were strides: its products overflow.
TEST(Misuse, DiagonalsOfHugeEmptyTensorsHaveTheirLength) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  const Tensor x = zeros({0, kHuge, 4});
  EXPECT_EQ(diagonal(x, {.offset = -kHuge / 2}).shape(), (Shape{0, 4}));
}

TEST(Misuse, IntegerDivisionByZeroIsAnError) {
  const std::int64_t a[] = {6, 7}, b[] = {2, 0};
  EXPECT_THROW(div(from_host<std::int64_t>(a, {2}), from_host<std::int64_t>(b, {2})), Error);
}

TEST(Misuse, PoolIndicesOutsideTheImageAreErrors) {
  const OpDef& op = find_op("max_pool_backward");
  const Tensor dy = zeros({1, 1, 2, 2});
  const std::int32_t index[] = {0, 2, 16, 10};
  EXPECT_THROW(apply(op, {dy, from_host<std::int32_t>(index, {1, 1, 2, 2})}, op::ShapeAttrs{{1, 1, 4, 4}}), Error);
}

}  // namespace

TEST(Integers, AreExactBeyondTheReachOfDoubles) {
  const std::int64_t big = (std::int64_t{1} << 60) + 1, least = std::numeric_limits<std::int64_t>::min();
  const auto one = [](std::int64_t v) { return from_host<std::int64_t>({&v, 1}, {1}); };
  EXPECT_EQ(add(one(big), one(1)).data<std::int64_t>()[0], big + 1);
  EXPECT_EQ(sub(one(big), one(1)).data<std::int64_t>()[0], big - 1);
  EXPECT_EQ(div(one(big), one(1)).data<std::int64_t>()[0], big);
  EXPECT_EQ(div(one(-7), one(2)).data<std::int64_t>()[0], -3);
  EXPECT_EQ(div(one(least), one(-1)).data<std::int64_t>()[0], least);
  EXPECT_FALSE(equal(one(big), one(big - 1)).data<bool>()[0]);
  EXPECT_TRUE(less(one(big - 1), one(big)).data<bool>()[0]);
}

TEST(Integers, OfEightBitsWrap) {
  const std::uint8_t a[] = {250, 3}, b[] = {10, 5};
  const Tensor sum = add(from_host<std::uint8_t>(a, {2}), from_host<std::uint8_t>(b, {2}));
  EXPECT_EQ(sum.data<std::uint8_t>()[0], 4);
  EXPECT_EQ(sum.data<std::uint8_t>()[1], 8);
}

TEST(Halves, AddInTheirOwnPrecision) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const double a[] = {1.5, -2}, b[] = {0.25, 3};
    const Tensor sum = add(from_doubles(a, {2}, dtype), from_doubles(b, {2}, dtype));
    EXPECT_EQ(sum.to_vector(), (std::vector<double>{1.75, 1}));
  }
}

}  // namespace starling::testing
