#include "starling/base/text.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Text, InQuotesHasABackslashBeforeQuotesAndBackslashes) {
  EXPECT_EQ(in_quotes(""), R"("")");
  EXPECT_EQ(in_quotes(R"(a "b" \c)"), R"("a \"b\" \\c")");
}

TEST(Text, IsTrimmedOfTheBlanksAskedForAtBothEnds) {
  EXPECT_EQ(trimmed("  a b "), "a b");
  EXPECT_EQ(trimmed("\t a "), "\t a");
  EXPECT_EQ(trimmed("\t a ", " \t"), "a");
  EXPECT_EQ(trimmed("   "), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Text, OfAMarkdownCellEndsAtNoBar) { EXPECT_EQ(markdown_cell("a|b||"), R"(a\|b\|\|)"); }

}  // namespace
}  // namespace starling
