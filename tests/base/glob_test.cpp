#include "starling/base/file/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace starling {
namespace {

TEST(Glob, StarsAreAnyCharactersAndQuestionMarksOne) {
  EXPECT_TRUE(glob_matches("*.bias", "fc1.bias"));
  EXPECT_FALSE(glob_matches("*.bias", "fc1.biases"));
  EXPECT_TRUE(glob_matches("block?.*.weight", "block1.conv.weight"));
  EXPECT_FALSE(glob_matches("block?.*.weight", "block10.conv.weight"));
  EXPECT_TRUE(glob_matches("*a*b", "xxaxxbxab"));
  EXPECT_FALSE(glob_matches("weight", "weights"));
  EXPECT_TRUE(glob_matches("a*", "a*"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("", "x"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(glob_matches("**", ""));
}

TEST(Glob, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace starling
