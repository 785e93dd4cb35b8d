#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kState = R"(
    variable 0 "w" f32[5, 4]
    variable 1 "m" f32[5, 4]
    variable 2 "v" f32[5, 4]
    %g = input {shape=[5, 4]}
    %f = input {index=1}
    %lr = input {index=2}
    %t = input {index=3, dtype=i64}
    %w = variable {shape=[5, 4]}
    %m = variable {index=1, shape=[5, 4]}
    %v = variable {index=2, shape=[5, 4]}
)";

TEST(ScaledUpdates, TakeTheFactorOfTheirGradient) {
  EXPECT_EQ(shown_after("scaled_updates", kState + R"(
    %s = mul(%g, %f)
    %nw, %nm, %nv = adam_update(%w, %m, %v, %s, %lr, %t)
    assign(%nw)
    return)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = variable 0
%5 = variable 1
%6 = variable 2
%7, %8, %9 = adam_update(%4, %5, %6, %0, %2, %3, %1) {scaled=true}
assign 0(%7)
return
)");
}

TEST(ScaledUpdates, KeepTheGuardLast) {
  const std::string shown = shown_after("scaled_updates", kState + R"(
    %skip = input {index=4, dtype=bool}
    %s = mul(%f, %g)
    %nw, %nm, %nv = adam_update(%w, %m, %v, %s, %lr, %t, %skip) {guarded=true}
    assign(%nw)
    return)");
  EXPECT_NE(shown.find("adam_update(%4, %5, %6, %0, %2, %3, %1, %7) {scaled=true, guarded=true}"), std::string::npos)
      << shown;
}

TEST(ScaledUpdates, OfMomentumBecomeTheGeneralUpdate) {
  const std::string shown = shown_after("scaled_updates", kState + R"(
    %s = mul(%g, %f)
    %nw, %nv = sgd_update(%w, %v, %s, %lr) {momentum=0.9, weight_decay=0.1}
    assign(%nw)
    return)");
  EXPECT_NE(shown.find("momentum_update(%4, %6, %0, %2, %1) {momentum=0.9, weight_decay=0.1, scaled=true}"),
            std::string::npos)
      << shown;
}

TEST(ScaledUpdates, LeaveThoseOfDevicesWithoutTheGeneralUpdate) {
  expect_unchanged_by("scaled_updates", kState + R"(
    %c = identity(%f) device=cuda:0
    %s = mul(%g, %c) device=cuda:0
    %nw, %nv = sgd_update(%w, %v, %s, %lr) {momentum=0.9, weight_decay=0.1} device=cuda:0
    assign(%nw)
    return)");
}

TEST(ScaledUpdates, LeaveProductsThatOthersReadOrThatAreNoScale) {
  expect_unchanged_by("scaled_updates", kState + R"(
    %s = mul(%g, %f)
    %nw, %nm, %nv = adam_update(%w, %m, %v, %s, %lr, %t)
    assign(%nw)
    return %s)");
  expect_unchanged_by("scaled_updates", kState + R"(
    %s = mul(%g, %g)
    %nw, %nm, %nv = adam_update(%w, %m, %v, %s, %lr, %t)
    assign(%nw)
    return)");
  expect_unchanged_by("scaled_updates", kState + R"(
    %s = mul(%g, %f)
    %nw, %nv = sgd_update(%w, %v, %s, %lr)
    assign(%nw)
    return)");
}

TEST(FusedOptimizer, JoinsUpdatesOfAnyRule) {
  const std::string shown = shown_after("fused_optimizer", R"(
    variable 0 "w" f32[5, 4]
    variable 1 "m" f32[5, 4]
    variable 2 "b" f32[5]
    variable 3 "bm" f32[5]
    %g = input {shape=[5, 4]}
    %h = input {index=1, shape=[5]}
    %lr = input {index=2}
    %w = variable {shape=[5, 4]}
    %m = variable {index=1, shape=[5, 4]}
    %b = variable {index=2, shape=[5]}
    %bm = variable {index=3, shape=[5]}
    %nw, %nm = lion_update(%w, %m, %g, %lr)
    assign(%nw)
    assign(%nm) {index=1}
    %nb, %nbm = lion_update(%b, %bm, %h, %lr)
    assign(%nb) {index=2}
    assign(%nbm) {index=3}
    return)");
  EXPECT_NE(shown.find("%7, %8, %9, %10 = lion_update(%3, %5, %4, %6, %0, %1, %2)"), std::string::npos) << shown;
  EXPECT_NE(shown.find("assign 1(%9)"), std::string::npos) << shown;
}

}  // namespace
}  // namespace starling::graph
