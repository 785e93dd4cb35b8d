#include "starling/base/config/settings.h"

#include <gtest/gtest.h>

#include "starling/base/config/kinds.h"
#include "starling/base/error.h"

namespace starling {
namespace {

enum class Shade { light, dark };

struct Inner {
  double rate = 0.5;
  static Settings settings() { return {setting("rate", &Inner::rate, "a share", {.min = 0, .max = 1})}; }
};

struct Outer {
  std::int64_t count = 3;
  bool on = true;
  std::string word = "so";
  Shade shade = Shade::dark;
  std::vector<std::int64_t> sizes = {1, 2};
  std::optional<double> limit{};
  Inner inner{};
  static Settings settings() {
    return {setting("count", &Outer::count, "how many", {.min = 1}),
            setting("on", &Outer::on, "whether"),
            setting("word", &Outer::word, "what to say"),
            choice("shade", &Outer::shade, {"light", "dark"}, "how dark"),
            setting("sizes", &Outer::sizes, "of each", {.min = 0}),
            setting("limit", &Outer::limit, "the most"),
            setting("inner", &Outer::inner, "of the part")};
  }
};

struct Named {
  std::string folder{};
  static Settings settings() { return {required(setting("folder", &Named::folder, "where"))}; }
};

template <class T>
T read(const std::string& yaml) {
  return read_settings<T>(ConfigNode::parse(yaml, "job.yaml"));
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Settings, ReadWhatIsGivenAndKeepDefaults) {
  const auto given = read<Outer>("{count: 7, shade: light, sizes: [4], limit: 2.5, inner: {rate: 0.25}}");
  EXPECT_EQ(given.count, 7);
  EXPECT_TRUE(given.on);
  EXPECT_EQ(given.word, "so");
  EXPECT_EQ(given.shade, Shade::light);
  EXPECT_EQ(given.sizes, std::vector<std::int64_t>{4});
  EXPECT_EQ(given.limit, 2.5);
  EXPECT_EQ(given.inner.rate, 0.25);
}

TEST(Settings, PrintedAsJsonReadBackTheSame) {
  const auto given = read<Outer>("{count: 7, shade: light, sizes: [4], inner: {rate: 0.25}}");
  const auto again = read<Outer>(settings_json(given).dump());
  EXPECT_EQ(settings_json(again), settings_json(given));
  EXPECT_EQ(settings_json(given).at("shade"), "light");
  EXPECT_TRUE(settings_json(given).at("limit").is_null());
}

TEST(Settings, RefuseWithThePlaceOfWhatIsWrong) {
  EXPECT_EQ(
      error_of([] { read<Outer>("\ncuont: 7"); }),
      "job.yaml:2:1: [config] expected one of (count, on, word, shade, sizes, limit, inner), got 'cuont' (did you "
      "mean 'count'?)");
  EXPECT_EQ(error_of([] { read<Outer>("inner: {rate: 2}"); }),
            "job.yaml:1:15: [config] expected a number from 0 to 1 for inner.rate, got '2'");
  EXPECT_EQ(error_of([] { read<Outer>("sizes: [1, -1]"); }),
            "job.yaml:1:12: [config] expected an integer of at least 0 for sizes.1, got '-1'");
  EXPECT_NE(error_of([] { read<Named>("{}"); }).find("expected the key 'folder'"), std::string::npos);
}

TEST(Settings, SchemaTellsTypesBoundsDefaultsAndWhatIsRequired) {
  const auto schema = settings_schema<Outer>();
  EXPECT_EQ(schema.at("properties").at("count"),
            nlohmann::json({{"type", "integer"}, {"minimum", 1}, {"description", "how many"}, {"default", 3}}));
  EXPECT_EQ(schema.at("properties").at("shade").at("enum"), nlohmann::json({"light", "dark"}));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  EXPECT_FALSE(schema.contains("required"));
  EXPECT_EQ(settings_schema<Named>().at("required"), nlohmann::json({"folder"}));
}

Kinds<double> rates() {
  Kinds<double> kinds;
  kinds.add<Inner>("plain", "the rate itself", [](const Inner& o) { return o.rate; });
  kinds.add<Inner>("double", "twice the rate", [](const Inner& o) { return 2 * o.rate; });
  return kinds;
}

TEST(Kinds, AreChosenByNameWithTheirOwnOptions) {
  const auto kinds = rates();
  const auto chosen = kinds.choose(ConfigNode::parse("{name: double, rate: 0.25}", "job.yaml"));
  EXPECT_EQ(chosen.make(), 0.5);
  EXPECT_EQ(chosen.json(), nlohmann::json({{"rate", 0.25}}));
  EXPECT_EQ(kinds.by_name("double").make(), 1);
  EXPECT_EQ(kinds.choose(ConfigNode::parse("{rate: 1}", "job.yaml"), {}, "plain").make(), 1);
}

TEST(Kinds, NameTheClosestWhenThereIsNone) {
  const auto kinds = rates();
  EXPECT_EQ(error_of([&] { kinds.choose(ConfigNode::parse("name: plian", "job.yaml")); }),
            "job.yaml:1:7: [config] expected one of (double, plain) for name, got 'plian' (did you mean 'plain'?)");
  EXPECT_NE(error_of([&] { kinds.by_name("duoble"); }).find("(did you mean 'double'?)"), std::string::npos);
}

}  // namespace
}  // namespace starling
