#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Rejoin, LaysPiecesSideBySide) {
  EXPECT_EQ(shown_after("rejoin", R"(
    %a = input {shape=[4, 2]}
    %b = input {index=1, shape=[4, 3]}
    %c = input {index=2, shape=[4, 1]}
    %x = slice_backward(%a) {shape=[4, 6], axis=1, begin=3, end=5}
    %y = slice_backward(%b) {shape=[4, 6], axis=-1, end=3}
    %z = slice_backward(%c) {shape=[4, 6], axis=1, begin=5}
    %s = add(%x, %y)
    %t = add(%s, %z)
    return %t)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = concat(%1, %0, %2) {axis=1}
return %3
)");
}

TEST(Rejoin, JoinsBeforeDimensionsWereMerged) {
  EXPECT_EQ(shown_after("rejoin", R"(
    %a = input {shape=[4, 3, 2]}
    %b = input {index=1, shape=[4, 3, 2]}
    %ta = transpose(%a) {order=[0, 2, 1]}
    %tb = transpose(%b) {order=[0, 2, 1]}
    %ra = reshape(%ta) {shape=[4, 6]}
    %rb = reshape(%tb) {shape=[4, 6]}
    %x = slice_backward(%ra) {shape=[4, 12], axis=1, end=6}
    %y = slice_backward(%rb) {shape=[4, 12], axis=1, begin=6}
    %t = add(%x, %y)
    return %t)"),
            R"(
%0 = input 0
%1 = input 1
%2 = transpose(%0) {order=[0, 2, 1]}
%3 = transpose(%1) {order=[0, 2, 1]}
%4 = concat(%2, %3) {axis=1}
%5 = reshape(%4) {shape=[4, 12]}
return %5
)");
}

TEST(Rejoin, LeavesPiecesThatOverlapOrLeaveAGap) {
  for (const char* second : {"begin=2", "begin=4"}) {
    const int count = second[6] == '2' ? 4 : 2;
    expect_unchanged_by("rejoin", "%a = input {shape=[3]}\n%b = input {index=1, shape=[" + std::to_string(count) +
                                      "]}\n%x = slice_backward(%a) {shape=[6], end=3}\n%y = slice_backward(%b) "
                                      "{shape=[6], " +
                                      second + "}\n%t = add(%x, %y)\nreturn %t");
  }
}

TEST(Rejoin, KeepsAPieceThatIsAResult) {
  EXPECT_EQ(shown_after("rejoin", R"(
    %a = input {shape=[3]}
    %b = input {index=1, shape=[3]}
    %x = slice_backward(%a) {shape=[6], end=3}
    %y = slice_backward(%b) {shape=[6], begin=3}
    %t = add(%x, %y)
    return %t, %x)"),
            R"(
%0 = input 0
%1 = input 1
%2 = slice_backward(%0) {shape=[6], end=3}
%3 = concat(%0, %1) {axis=0}
return %3, %2
)");
}

}  // namespace
}  // namespace starling::graph
