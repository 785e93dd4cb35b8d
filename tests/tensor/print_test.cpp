#include <gtest/gtest.h>

#include <sstream>

#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/tensor/literal.h"

namespace starling {
namespace {

std::string printed(const Tensor& tensor) {
  std::ostringstream out;
  out << tensor;
  return out.str();
}

TEST(PrintTensor, MatricesAreRowsBelowTheirDtypeAndShape) {
  EXPECT_EQ(printed(tensor({{1, 20}, {-3, 4}})),
            "i64[2, 2]\n"
            "[[ 1, 20],\n"
            " [-3,  4]]");
  EXPECT_EQ(printed(tensor({{1.5, 20}, {0.25, 4}})),
            "f32[2, 2]\n"
            "[[ 1.50, 20.00],\n"
            " [ 0.25,  4.00]]");
}

TEST(PrintTensor, MatricesOfAStackAreApart) {
  EXPECT_EQ(printed(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})),
            "i64[2, 2, 2]\n"
            "[[[1, 2],\n"
            "  [3, 4]],\n"
            "\n"
            " [[5, 6],\n"
            "  [7, 8]]]");
}

TEST(PrintTensor, OneRowAndOneNumberStayOnTheLine) {
  EXPECT_EQ(printed(tensor({true, false})), "bool[2] [ true, false]");
  EXPECT_EQ(printed(tensor(0.1F)), "f32[] 0.1");
  EXPECT_EQ(printed(tensor({0.1, 0.2})), "f32[2] [0.1, 0.2]");
  EXPECT_EQ(printed(tensor({})), "f32[0] []");
  EXPECT_EQ(printed(tensor({std::int64_t{1} << 60})), "i64[1] [1152921504606846976]");
}

TEST(PrintTensor, SmallAndLargeFloatsAreScientificAndNanIsNan) {
  EXPECT_EQ(printed(tensor({1e-6, 2.0})), "f32[2] [1.0000e-06, 2.0000e+00]");
  EXPECT_EQ(printed(tensor({std::numeric_limits<double>::quiet_NaN(), 1.5})), "f32[2] [nan, 1.5]");
  EXPECT_EQ(printed(tensor({1.0, 2.0}, DType::bf16)), "bf16[2] [1, 2]");
}

TEST(PrintTensor, LongOnesAreShortenedAtEveryAxis) {
  EXPECT_EQ(printed(arange(0, 2000)), "i64[2000] [   0,    1,    2, …, 1997, 1998, 1999]");
  EXPECT_EQ(printed(reshape(arange(0, 2000), {500, 4})),
            "i64[500, 4]\n"
            "[[   0,    1,    2,    3],\n"
            " [   4,    5,    6,    7],\n"
            " [   8,    9,   10,   11],\n"
            " …,\n"
            " [1988, 1989, 1990, 1991],\n"
            " [1992, 1993, 1994, 1995],\n"
            " [1996, 1997, 1998, 1999]]");
}

TEST(PrintTensor, RowsAreBrokenAtEightyColumns) {
  std::istringstream lines(printed(arange(100, 150)));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 80U) << line;
    ++count;
  }
  EXPECT_EQ(count, 5) << "the dtype and shape, then four lines of numbers";
}

TEST(PrintTensor, ViewsShowWhatTheySee) {
  EXPECT_EQ(printed(transpose(tensor({{1, 2}, {3, 4}}))), "i64[2, 2]\n[[1, 3],\n [2, 4]]");
}

}  // namespace
}  // namespace starling
