#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kState = R"(
    variable 0 "w" f32[5, 4]
    variable 1 "wv" f32[5, 4]
    variable 2 "b" f32[5]
    variable 3 "bv" f32[5]
    %g = input {shape=[5, 4]}
    %h = input {index=1, shape=[5]}
    %lr = input {index=2}
    %w = variable {shape=[5, 4]}
    %wv = variable {index=1, shape=[5, 4]}
    %b = variable {index=2, shape=[5]}
    %bv = variable {index=3, shape=[5]}
)";

TEST(FusedOptimizer, JoinsUpdatesOfOneKindAndTheirAssigns) {
  EXPECT_EQ(shown_after("fused_optimizer", kState + R"(
    %nw, %nwv = sgd_update(%w, %wv, %g, %lr) {momentum=0.9}
    assign(%nw)
    assign(%nwv) {index=1}
    %s = all_reduce(%h)
    %nb, %nbv = sgd_update(%b, %bv, %s, %lr) {momentum=0.9}
    assign(%nb) {index=2}
    assign(%nbv) {index=3}
    return %nw)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = variable 0
%4 = variable 1
%5 = variable 2
%6 = variable 3
%7 = all_reduce(%1)
%8, %9, %10, %11 = sgd_update_many(%3, %5, %4, %6, %0, %7, %2) {momentum=0.9}
assign 0(%8)
assign 1(%10)
assign 2(%9)
assign 3(%11)
return %8
)");
}

// Large gradients stay separate: fused, all would wait for the last one.
TEST(FusedOptimizer, LargeUpdatesStayApart) {
  expect_unchanged_by("fused_optimizer", R"(
    variable 0 "w" f32[1024, 512]
    variable 1 "wv" f32[1024, 512]
    variable 2 "b" f32[512]
    variable 3 "bv" f32[512]
    %g = input {shape=[1024, 512]}
    %h = input {index=1, shape=[512]}
    %lr = input {index=2}
    %w = variable {shape=[1024, 512]}
    %wv = variable {index=1, shape=[1024, 512]}
    %b = variable {index=2, shape=[512]}
    %bv = variable {index=3, shape=[512]}
    %nw, %nwv = sgd_update(%w, %wv, %g, %lr)
    assign(%nw)
    assign(%nwv) {index=1}
    %nb, %nbv = sgd_update(%b, %bv, %h, %lr)
    assign(%nb) {index=2}
    assign(%nbv) {index=3}
    return)");
}

TEST(FusedOptimizer, LeavesASingleUpdateAlone) {
  expect_unchanged_by("fused_optimizer", kState + "%nw, %nwv = sgd_update(%w, %wv, %g, %lr)\nassign(%nw)\nreturn");
}

TEST(FusedOptimizer, KeepsUpdatesApartThatDifferInRateOrAttributes) {
  const std::string first = kState + "%nw, %nwv = sgd_update(%w, %wv, %g, %lr)\nassign(%nw)\n";
  expect_unchanged_by("fused_optimizer",
                      first + "%nb, %nbv = sgd_update(%b, %bv, %h, %lr) {momentum=0.5}\nassign(%nb) {index=2}\nreturn");
  expect_unchanged_by(
      "fused_optimizer",
      first + "%half = mul(%lr, %lr)\n%nb, %nbv = sgd_update(%b, %bv, %h, %half)\nassign(%nb) {index=2}\nreturn");
  expect_unchanged_by("fused_optimizer",
                      first + "%nb, %nbv = sgd_update(%b, %bv, %h, %lr) device=cpu:1\nassign(%nb) {index=2}\nreturn");
}

TEST(FusedOptimizer, KeepsUpdatesApartThatDependOnEachOther) {
  expect_unchanged_by("fused_optimizer", kState + R"(
    %nw, %nwv = sgd_update(%w, %wv, %g, %lr)
    %step = mul(%nw, %g)
    %sum = sum(%step) {axes=[1]}
    %nb, %nbv = sgd_update(%b, %bv, %sum, %lr)
    assign(%nb) {index=2}
    return)");
}

TEST(FusedOptimizer, KeepsUpdatesApartThatReadWhatTheOtherOverwrites) {
  expect_unchanged_by("fused_optimizer", kState + R"(
    %e = exp(%h)
    %f = neg(%h)
    %row = reshape(%bv) {shape=[1, 5]}
    %view = reshape(%row) {shape=[5]}
    %nb, %nh = sgd_update(%b, %h, %view, %lr)
    assign(%nb) {index=2}
    %nbv, %ne = sgd_update(%bv, %e, %f, %lr)
    assign(%nbv) {index=3}
    return)");
}

TEST(FusedOptimizer, KeepsAnUpdateBeforeTheNextReadOfItsVariable) {
  expect_unchanged_by("fused_optimizer", kState + R"(
    %nw, %nwv = sgd_update(%w, %wv, %g, %lr)
    assign(%nw)
    %again = variable {shape=[5, 4]}
    %nb, %nbv = sgd_update(%b, %bv, %h, %lr)
    assign(%nb) {index=2}
    return %again)");
}

}  // namespace
}  // namespace starling::graph
