#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kProduct = R"(
    %q = input {shape=[50, 2]}
    %k = input {index=1, shape=[2, 60]}
    %s = matmul(%q, %k)
    %c = full {value=0.5}
)";

TEST(Scales, GoToTheSmallFactorOfALargeProduct) {
  EXPECT_EQ(shown_after("scales", kProduct + "%y = mul(%s, %c)\n%p = softmax(%y)\nreturn %p"), R"(
%0 = input 0
%1 = input 1
%2 = full {value=0.5}
%3 = mul(%0, %2)
%4 = matmul(%3, %1)
%5 = softmax(%4)
return %5
)");
}

TEST(Scales, StayWhereTheyFuseWithWhatReadsThem) {
  expect_unchanged_by("scales", kProduct + "%y = mul(%s, %c)\n%e = exp(%y)\nreturn %e");
}

TEST(Scales, StayWithProductsThatOthersWantOrThatAreSmall) {
  expect_unchanged_by("scales", kProduct + "%y = mul(%c, %s)\n%p = softmax(%y)\nreturn %p, %s");
  expect_unchanged_by("scales", R"(
    %a = input {shape=[5, 60]}
    %s = matmul(%a, %a) {trans_b=true}
    %c = full {value=0.5}
    %y = mul(%s, %c)
    return %y)");
}

TEST(Scales, StayWhereAFactorMightOverflowOrVanish) {
  expect_unchanged_by("scales", kProduct + "%big = full {value=1e20}\n%y = mul(%s, %big)\nreturn %y, %c");
  expect_unchanged_by("scales", kProduct + "%tiny = full {value=1e-20}\n%y = mul(%s, %tiny)\nreturn %y, %c");
}

}  // namespace
}  // namespace starling::graph
