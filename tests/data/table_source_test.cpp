// Tables and texts as sources: scales, several targets, vocabularies.
#include <gtest/gtest.h>

#include <numeric>

#include "starling/data/loading/loader.h"
#include "starling/data/source.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;
using Values = std::vector<double>;

DataSplits source(const std::string& yaml) {
  return source_kinds().choose(ConfigNode::parse(yaml, "job.yaml")).make()();
}

std::vector<Tensor> all_of(const Dataset& data) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(data.size()));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Tensor> out;
  for (auto type : data.fields()) {
    type.shape.insert(0, data.size());
    out.push_back(empty(type.shape, type.dtype));
  }
  data.gather(rows, out);
  return out;
}

TEST(TableSources, CsvStandardisesNumbersAndLeavesWordsAlone) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "x,same,colour,y\n1,7,red,0\n,7,blue,1\n5,7,red,1\n");
  const auto splits =
      source("{name: csv, train: ['" + file + "'], label: y, categories: [colour], missing: mean, standardise: true}");
  // Mean 3 and deviation 2 of what is there; a gap becomes the mean, a constant column 0.
  EXPECT_EQ(all_of(*splits.train)[0].to_vector(), (Values{-1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1}));
}

TEST(TableSources, CsvTakesSeveralTargets) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "x,a,b\n1,2,3\n4,5,6\n");
  const std::string head = "{name: csv, train: ['" + file + "'], ";
  const auto splits = source(head + "targets: [b, a]}");
  EXPECT_EQ(to_string(splits.train->fields()[1]), "f32[2]");
  EXPECT_EQ(all_of(*splits.train)[0].to_vector(), (Values{1, 4}));
  EXPECT_EQ(all_of(*splits.train)[1].to_vector(), (Values{3, 2, 6, 5}));
  EXPECT_EQ(splits.target_names, (std::vector<std::string>{"b", "a"}));
  const auto stream = source(head + "targets: [b, a], streamed: true}");
  Loader loader(*stream.train_shards, {}, {.batch = 2, .shuffle = false});
  EXPECT_EQ(loader.next()->fields[1].to_vector(), (Values{3, 2, 6, 5}));
  EXPECT_NE(error_of([&] { source(head + "targets: [b], label: a}"); }).find("a label or targets"), std::string::npos);
  const std::string missing = error_of([&] { source(head + "targets: [c, d]}"); });
  EXPECT_NE(missing.find("expected the columns 'c', 'd', got 3 others: x, a, b"), std::string::npos) << missing;
}

TEST(TableSources, CsvTextGivesIdsAndClasses) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "t,c\n\"Ham, eggs\",food\neggs and a car,car\n,food\n");
  const std::string head = "{name: csv_text, train: ['" + file + "'], text: t, label: c, length: 3, ";
  const auto splits = source(head + "vocabulary: 100}");
  EXPECT_EQ(splits.class_names, (std::vector<std::string>{"car", "food"}));
  // By frequency, then by name: eggs 2; "," a and car ham.
  EXPECT_EQ(all_of(*splits.train)[0].to_vector(), (Values{7, 3, 2, 2, 5, 4, 0, 0, 0}));
  EXPECT_EQ(all_of(*splits.train)[1].to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(splits.vocabulary, 8);
  EXPECT_EQ(source(head + "vocabulary: 4}").vocabulary, 4);
  EXPECT_EQ(source(head + "vocabulary: 50, tokens: hashed}").vocabulary, 50);
  write_text(file, "t,c\nham,food\neggs,\n");
  EXPECT_NE(error_of([&] { source(head + "vocabulary: 100}"); }).find("a.csv:3: expected a class"), std::string::npos);
}

TEST(TableSources, ReadOtherFilesAsTheyWereReadBefore) {
  const TemporaryFolder folder;
  write_text(folder / "own.csv", "x,colour,kind\n0,red,b\n4,blue,a\n");
  write_text(folder / "other.csv", "x,colour,kind\n100,green,b\n4,red,b\n");
  const std::string options =
      "{name: csv, label: kind, categories: [colour], standardise: true, train: [" + folder.path().string() + "/";
  const auto own = source(options + "own.csv]}");
  const Reading as{own.raw, own.tokenizer, own.class_names};
  const auto chosen = source_kinds().choose(ConfigNode::parse(options + "other.csv]}", "job.yaml")).make();
  EXPECT_EQ(chosen().class_names, (std::vector<std::string>{"b"}));
  const auto other = chosen(as);
  EXPECT_EQ(other.class_names, own.class_names);
  EXPECT_EQ(other.raw, own.raw);
  const auto rows = all_of(*other.train);
  EXPECT_EQ(rows[0].to_vector(), (Values{49, 0, 0, 1, 0, 1})) << "mean 2, deviation 2; blue, red";
  EXPECT_EQ(rows[1].to_vector(), (Values{1, 1}));
}

TEST(TableSources, CsvTellsTheScalesOfTargetsAndLeavesThemAsTheyAre) {
  const TemporaryFolder folder;
  const std::string file = (folder / "a.csv").string();
  write_text(file, "x,a,b\n1,100,3\n4,300,3\n");
  const std::string head = "{name: csv, standardise_targets: true, train: ['" + file + "'], ";
  const auto two = source(head + "targets: [b, a]}");
  EXPECT_EQ(two.target_means, (Values{3, 200}));
  EXPECT_EQ(two.target_deviations, (Values{1, 100})) << "of a constant 1";
  EXPECT_EQ(all_of(*two.train)[1].to_vector(), (Values{3, 100, 3, 300}));
  EXPECT_EQ(source(head + "label: a, label_kind: number, ignore: [b]}").target_means, (Values{200}));
  EXPECT_NE(error_of([&] { source(head + "label: a}"); }).find("label_kind: number"), std::string::npos);
}

}  // namespace
}  // namespace starling::data
