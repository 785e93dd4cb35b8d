#include "starling/base/config/config.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using testing::error_of;

const std::string kJob =
    "model: lenet\n"
    "train:\n"
    "  epochs: 3\n"
    "  lr: 1e-2\n"
    "  shuffle: true\n"
    "  name: \"12\"\n"
    "  sizes: [1, 2, 3]\n";

ConfigNode job(const std::vector<std::string>& overrides = {}) {
  return ConfigNode::parse(kJob, "job.yaml", overrides);
}

TEST(Config, ReadsTypedValues) {
  const auto train = job().at("train");
  EXPECT_EQ(job().at("model").as_string(), "lenet");
  EXPECT_EQ(train.at("epochs").as_int(), 3);
  EXPECT_EQ(train.at("lr").as_double(), 0.01);
  EXPECT_TRUE(train.at("shuffle").as_bool());
  EXPECT_EQ(train.at("name").as_string(), "12");
  EXPECT_EQ(train.at("sizes").as_list().at(2).as_int(), 3);
  EXPECT_EQ(train.as_map().front().first, "epochs");
}

TEST(Config, KnowsPathAndPlaceOfAValue) {
  const auto lr = job().at("train").at("lr");
  EXPECT_EQ(lr.path(), "train.lr");
  EXPECT_EQ(lr.where(), "job.yaml:4:7");
  EXPECT_EQ(job().at("train").at("sizes").as_list().at(1).path(), "train.sizes.1");
}

TEST(Config, FallsBackWhenAKeyIsMissingOrNull) {
  const auto node = ConfigNode::parse("a: ~\nb: 2\n", "f");
  EXPECT_EQ(node.get_int("a", 7), 7);
  EXPECT_EQ(node.get_int("b", 7), 2);
  EXPECT_EQ(node.get_string("c", "x"), "x");
  EXPECT_FALSE(node.get_bool("d", false));
  EXPECT_EQ(ConfigNode::parse("", "empty.yaml").get_double("e", 0.5), 0.5);
}

TEST(Config, NamesTheNearestKeyOfAnUnknownOne) {
  const auto node = ConfigNode::parse("model: x\n\noptimzer:\n  lr: 1\n", "job.yaml");
  EXPECT_EQ(
      error_of([&] {
        node.allow_keys({"model", "data", "optimizer", "train", "distribute"});
      }),
      "job.yaml:3:1: [config] expected one of (model, data, optimizer, train, distribute), got 'optimzer' (did you "
      "mean 'optimizer'?)");
  EXPECT_EQ(error_of([&] { node.at("optimzer").allow_keys({"momentum"}); }),
            "job.yaml:4:3: [config] expected one of (momentum) in optimzer, got 'lr'");
}

TEST(Config, SaysWhereAWrongTypeIs) {
  const auto train = job().at("train");
  EXPECT_EQ(error_of([&] { train.at("lr").as_int(); }),
            "job.yaml:4:7: [config] expected an integer for train.lr, got '1e-2'");
  EXPECT_EQ(error_of([&] { train.at("name").as_int(); }),
            "job.yaml:6:9: [config] expected an integer for train.name, got the quoted '12'");
  EXPECT_EQ(error_of([&] { train.at("sizes").as_string(); }),
            "job.yaml:7:10: [config] expected a string for train.sizes, got a list of 3");
  EXPECT_EQ(error_of([&] { train.at("epochs").as_bool(); }),
            "job.yaml:3:11: [config] expected true or false for train.epochs, got '3'");
  EXPECT_EQ(error_of([&] { train.at("batch"); }),
            "job.yaml:3:3: [config] expected the key 'batch' for train, got none (add 'batch: …')");
}

TEST(Config, RefusesNumbersOutOfRange) {
  const auto train = job().at("train");
  EXPECT_EQ(error_of([&] { train.get_int("epochs", 1, {.min = 5, .max = 9}); }),
            "job.yaml:3:11: [config] expected an integer from 5 to 9 for train.epochs, got '3'");
  EXPECT_EQ(error_of([&] { train.get_double("lr", 1, {.min = 0.5}); }),
            "job.yaml:4:7: [config] expected a number of at least 0.5 for train.lr, got '1e-2'");
  for (const char* text : {"99999999999999999999", "0x10", "1.5", "1 2", "-", "+-3"}) {
    EXPECT_NE(error_of([&] { ConfigNode::parse(text, "f").as_int(); }), "") << text;
  }
  for (const char* text : {"nan", "inf", "1e999", ".", "1,5"}) {
    EXPECT_NE(error_of([&] { ConfigNode::parse(text, "f").as_double(); }), "") << text;
  }
}

TEST(Config, OffersTheNearestChoice) {
  const auto node = ConfigNode::parse("kind: adma", "f");
  EXPECT_EQ(error_of([&] {
              node.at("kind").as_choice({"sgd", "adam"});
            }),
            "f:1:7: [config] expected one of (sgd, adam) for kind, got 'adma' (did you mean 'adam'?)");
  EXPECT_EQ(ConfigNode::parse("adam", "f").as_choice({"sgd", "adam"}), 1U);
}

TEST(Config, AppliesOverridesInOrder) {
  const auto node = job({"train.epochs=5", "train.epochs=6", "data.mean=[0.5, 1]", "train.sizes.1=20", "model=a=b"});
  EXPECT_EQ(node.at("train").at("epochs").as_int(), 6);
  EXPECT_EQ(node.at("data").at("mean").as_list().at(0).as_double(), 0.5);
  EXPECT_EQ(node.at("train").at("sizes").as_list().at(1).as_int(), 20);
  EXPECT_EQ(node.at("model").as_string(), "a=b");
}

TEST(Config, NamesTheOverrideThatIsWrong) {
  EXPECT_EQ(error_of([&] { job({"train.epochs=many"}).at("train").at("epochs").as_int(); }),
            "--set train.epochs: [config] expected an integer for train.epochs, got 'many'");
  EXPECT_EQ(
      error_of([&] {
        job({"train.epoch=3"}).at("train").allow_keys({"epochs", "lr", "shuffle", "name", "sizes"});
      }),
      "--set train.epoch: [config] expected one of (epochs, lr, shuffle, name, sizes) in train, got 'epoch' (did you "
      "mean 'epochs'?)");
  EXPECT_NE(error_of([&] { job({"train.epochs.depth=3"}); }), "");
  EXPECT_NE(error_of([&] { job({"train.sizes.7=3"}); }), "");
  EXPECT_NE(error_of([&] { job({"epochs"}); }), "");
  EXPECT_NE(error_of([&] { job({"=1"}); }), "");
  EXPECT_NE(error_of([&] { job({"a..b=1"}); }), "");
  EXPECT_NE(error_of([&] { job({"a=[1"}); }), "");
}

TEST(Config, RefusesAnchorsAliasesTagsAndRepeatedKeys) {
  EXPECT_NE(error_of([] { ConfigNode::parse("a: &x 1", "f"); }).find("f:1:"), std::string::npos);
  EXPECT_NE(error_of([] { ConfigNode::parse("a: &x [1]\nb: *x\n", "f"); }).find("anchor"), std::string::npos);
  EXPECT_NE(error_of([] { ConfigNode::parse("a: !!int 3", "f"); }).find("tag"), std::string::npos);
  EXPECT_EQ(error_of([] { ConfigNode::parse("a: 1\na: 2\n", "f"); }),
            "f:2:1: [config] expected each key once, got 'a' again (first at f:1:1; leave one of the two out)");
  EXPECT_NE(error_of([] { ConfigNode::parse("a: 1\n---\nb: 1\n", "f"); }).find("one document"), std::string::npos);
}

TEST(Config, KeepsTheFirstOfARepeatedKeyForWhoeverTellsAll) {
  const auto node =
      ConfigNode::parse("a: 1\nb: {c: 2, c: [3, {c: 4}]}\na: {x: 1}\nd: 5\n", "f", {}, ConfigNode::Repeated::keep);
  ASSERT_EQ(node.repeated().size(), 2U);
  EXPECT_EQ(node.repeated()[0].find("f:2:11: [config] expected each key once, got 'c' again (first at f:2:5;"), 0U);
  EXPECT_EQ(node.repeated()[1].find("f:3:1: "), 0U);
  EXPECT_EQ(node.at("a").as_int(), 1);
  EXPECT_EQ(node.at("b").at("c").as_int(), 2);
  EXPECT_EQ(node.at("d").as_int(), 5);
  const std::vector<std::string> set = {"b={c: 1, c: 2}"};
  EXPECT_NE(error_of([&] { ConfigNode::parse("a: 1\n", "f", set); }).find("'c' again"), std::string::npos);
}

TEST(Config, SaysWhichMapIsExpected) {
  const auto node = ConfigNode::parse("train: 5\nsteps: [a]\n", "f");
  EXPECT_EQ(error_of([&] {
              node.at("train").allow_keys({"epochs", "steps"});
            }),
            "f:1:8: [config] expected a map of settings (epochs, steps) for train, got '5'");
  EXPECT_EQ(error_of([&] { static_cast<void>(node.at("steps").find("x")); }),
            "f:2:8: [config] expected a map, 'steps: {setting: value}' for steps, got a list of 1");
}

TEST(Config, RefusesDeepAndLargeFiles) {
  EXPECT_EQ(error_of([] { ConfigNode::parse(std::string(32, '[') + std::string(32, ']'), "f"); }), "");
  EXPECT_NE(error_of([] { ConfigNode::parse(std::string(33, '[') + std::string(33, ']'), "f"); }).find("32 levels"),
            std::string::npos);
  EXPECT_NE(error_of([] { ConfigNode::parse(std::string(100000, '['), "f"); }), "");
  EXPECT_NE(error_of([] { ConfigNode::parse(std::string((1 << 20) + 1, ' '), "f"); }).find("bytes"), std::string::npos);
}

TEST(Config, LoadsAFileAndNamesAMissingOne) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "job.yaml", kJob);
  EXPECT_EQ(ConfigNode::load(folder / "job.yaml").at("model").as_string(), "lenet");
  EXPECT_NE(error_of([&] { ConfigNode::load(folder / "none.yaml"); }).find("none.yaml"), std::string::npos);
  EXPECT_NE(error_of([&] { ConfigNode::load(folder.path()); }), "");
}

TEST(Config, TellsEverythingThatIsWrongWithAFile) {
  const auto read = [](const ConfigNode& top) {
    top.allow_keys({"model", "train", "list"});
    top.at("model").as_int();
    const auto train = top.at("train");
    train.allow_keys({"epochs", "lr", "name"});
    train.at("epochs").as_int({.min = 1});
    train.at("lr").as_double();
    train.at("seed");
    for (const auto& item : top.at("list").as_list()) item.as_bool();
  };
  const std::string text = "model: x\ntrain: {epochs: 0, lr: fast, nmae: y}\nlist: [true, 1, 2, false]\nmodle: 1\n";
  const auto errors = config_errors(ConfigNode::parse(text, "job.yaml"), read);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].find("job.yaml:4:1: [config] expected one of (model, train, list), got 'modle'"), 0U);
  EXPECT_EQ(errors[1].find("job.yaml:1:8: [config] expected an integer"), 0U) << errors[1];

  const auto train = config_errors(ConfigNode::parse(text, "job.yaml"), [](const ConfigNode& top) {
    const auto section = top.find("train");
    if (!section) return;
    section->allow_keys({"epochs", "lr", "name", "seed"});
    if (const auto epochs = section->find("epochs")) epochs->as_int({.min = 1});
    section->at("lr").as_double();
    section->at("seed");
  });
  ASSERT_EQ(train.size(), 3U);
  EXPECT_NE(train[0].find("did you mean 'name'?"), std::string::npos);
  EXPECT_NE(train[1].find("at least 1"), std::string::npos);
  EXPECT_NE(train[2].find("'fast'"), std::string::npos);

  const auto list = config_errors(ConfigNode::parse(text, "job.yaml"), [](const ConfigNode& top) {
    for (const auto& item : top.at("list").as_list()) item.as_bool();
  });
  ASSERT_EQ(list.size(), 2U) << "both numbers";
  EXPECT_EQ(list[1].find("job.yaml:3:17"), 0U) << list[1];
  EXPECT_NE(list[1].find("for list.2,"), std::string::npos) << list[1];
  EXPECT_TRUE(
      config_errors(ConfigNode::parse(kJob, "job.yaml"), [](const ConfigNode& top) { top.at("model"); }).empty());
  EXPECT_EQ(config_errors(ConfigNode::parse(kJob, "job.yaml"), [](const ConfigNode&) { fail("[x] other"); }).size(),
            1U);
}

TEST(Config, ATildeBeginsAPathInTheHomeFolder) {
  ::setenv("HOME", "/home/of/somebody", 1);
  const auto node = ConfigNode::parse("{a: ~/runs, b: '~/runs', c: a/~/b, d: ~user/x}", "f");
  EXPECT_EQ(node.at("a").as_string(), "/home/of/somebody/runs");
  EXPECT_EQ(node.at("b").as_string(), "/home/of/somebody/runs");
  EXPECT_EQ(node.at("c").as_string(), "a/~/b");
  EXPECT_EQ(node.at("d").as_string(), "~user/x");
}

TEST(Config, AnOptionSetBesideABareNameMakesItAMap) {
  const std::vector<std::string> set = {"optimizer.lr=0.1"};
  const auto optimizer = ConfigNode::parse("optimizer: adam\n", "f", set).at("optimizer");
  EXPECT_EQ(optimizer.at("name").as_string(), "adam");
  EXPECT_EQ(optimizer.at("name").where(), "f:1:12");
  EXPECT_EQ(optimizer.at("lr").as_double(), 0.1);
  EXPECT_NE(error_of([&] { ConfigNode::parse("optimizer: 3\n", "f", set); }).find("a map to hold 'lr'"),
            std::string::npos);
}

TEST(Config, TellsATabFromOtherMistakes) {
  const auto tab = error_of([] { ConfigNode::parse("a:\n  b: 1\n \tc: 2\n", "f"); });
  EXPECT_EQ(tab, "f:3:2: [config] expected spaces before the key, got a tab (YAML is indented with spaces only)");
  const auto other = error_of([] { ConfigNode::parse("a: [1\t, 2\nb: 3\n", "f"); });
  EXPECT_EQ(other.find("a tab"), std::string::npos) << other;
  EXPECT_NE(other.find("expected YAML"), std::string::npos) << other;
}

TEST(Config, SurvivesMutatedFiles) {
  std::mt19937 random(1);
  const std::string alphabet = "[]{}:,-&*!|>'\"#%@` \n\tab1~?";
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string text = kJob;
    for (int k = 0; k < 4; ++k) text[random() % text.size()] = alphabet[random() % alphabet.size()];
    try {
      ConfigNode::parse(text, "f");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_LT(refused, 500);
}

}  // namespace
}  // namespace starling
