#include "starling/train/monitor/event_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "events.pb.h"
#include "starling/graph/export/record_file.h"
#include "starling/graph/parser.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

EventWriter writer_in(const fs::path& folder, std::optional<std::int64_t> resumed_at = {}, double now = 1.5) {
  return EventWriter::create(folder, {.resumed_at = resumed_at, .now = [now] { return now; }}).value();
}

std::vector<events::Event> events_of(const fs::path& file) {
  std::vector<events::Event> made;
  for (const auto& record : graph::read_records(testing::read_text(file)))
    EXPECT_TRUE(made.emplace_back().ParseFromString(record));
  return made;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(EventWriter, AScalarIsTheseBytes) {
  const testing::TemporaryFolder folder;
  auto writer = writer_in(folder.path());
  const auto before = testing::read_text(writer.path()).size();
  writer.scalar(3, "loss", 0.5).value();
  std::string hex;
  for (const unsigned char byte : testing::read_text(writer.path()).substr(before)) hex += fmt::format("{:02x}", byte);
  // 26 bytes, checksum; wall_time 1.5, step 3, summary { value { tag "loss" simple_value 0.5 } }; checksum.
  EXPECT_EQ(hex,
            "1a00000000000000"
            "129bd82d"
            "09000000000000f83f"
            "1003"
            "2a0d0a0b0a046c6f7373150000003f"
            "80655ee3");
}

TEST(EventWriter, BeginsAFileWithItsVersionUnderANameThatReadersLookFor) {
  const testing::TemporaryFolder folder;
  const auto writer = writer_in(folder / "run");
  EXPECT_EQ(writer.path().filename().string().find("events.out.tfevents.0000000001."), 0U) << writer.path();
  const auto events = events_of(writer.path());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
}

TEST(EventWriter, AResumedRunAddsAFileThatSortsLaterAndForgetsLaterSteps) {
  const testing::TemporaryFolder folder;
  writer_in(folder.path(), {}, 5000).scalar(1, "loss", 1).value();
  const auto again = writer_in(folder.path(), 7, 5000);  // within the same second
  const auto back = writer_in(folder.path(), 9, 100);    // the clock was set back
  const auto files = files_in(folder.path());
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[1], again.path());
  EXPECT_EQ(files[2], back.path());
  const auto events = events_of(again.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].session_log().status(), events::SessionLog::START);
  EXPECT_EQ(events[1].step(), 8);
}

TEST(EventWriter, StartingOverInAFolderForgetsEverything) {
  const testing::TemporaryFolder folder;
  writer_in(folder.path()).scalar(1, "loss", 1).value();
  const auto events = events_of(writer_in(folder.path()).path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].session_log().status(), events::SessionLog::START);
  EXPECT_EQ(events[1].step(), 0);
}

TEST(EventWriter, WritesManyScalarsAsOneEventEvenWhenTheyAreNotFinite) {
  const testing::TemporaryFolder folder;
  auto writer = writer_in(folder.path());
  const std::vector<Scalar> values = {{"train/loss", NAN}, {"train/lr", 0.25}};
  writer.scalars(4, values).value();
  const auto event = events_of(writer.path()).at(1);
  ASSERT_EQ(event.summary().value_size(), 2);
  EXPECT_TRUE(std::isnan(event.summary().value(0).simple_value()));
  EXPECT_EQ(event.summary().value(1).tag(), "train/lr");
  EXPECT_EQ(event.summary().value(1).simple_value(), 0.25F);
  EXPECT_EQ(event.step(), 4);
}

TEST(EventWriter, WritesHistogramsImagesAndTexts) {
  const testing::TemporaryFolder folder;
  auto writer = writer_in(folder.path());
  const Histogram histogram = histogram_of(from_doubles(std::vector<double>{-1, 2, 2}, {3}));
  writer.histogram(5, "weights/w", histogram).value();
  const Picture image{.width = 2, .height = 1, .channels = 3, .pixels = {1, 2, 3, 4, 5, 6}};
  writer.image(6, "samples", image).value();
  writer.text(7, "job", "a: **b**").value();
  const auto events = events_of(writer.path());
  const auto& histo = events.at(1).summary().value(0).histo();
  EXPECT_EQ(events.at(1).summary().value(0).tag(), "weights/w");
  EXPECT_EQ(histo.num(), 3);
  EXPECT_EQ(histo.min(), -1);
  EXPECT_EQ(histo.sum_squares(), 9);
  EXPECT_EQ(std::vector<double>(histo.bucket_limit().begin(), histo.bucket_limit().end()), histogram.limits);
  EXPECT_EQ(histo.bucket_size(), histo.bucket_limit_size());
  const auto& picture = events.at(2).summary().value(0).image();
  EXPECT_EQ(picture.width(), 2);
  EXPECT_EQ(picture.colorspace(), 3);
  EXPECT_EQ(picture.encoded_image_string(), to_png(image));
  const auto& text = events.at(3).summary().value(0);
  EXPECT_EQ(text.metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(text.tensor().string_val(0), "a: **b**");
}

TEST(EventWriter, WritesAGraphAndHyperParameters) {
  const testing::TemporaryFolder folder;
  auto writer = writer_in(folder.path());
  writer.graph(graph::parse_graph("starling-graph 1\n%0 = input {shape=[2]}\n%1 = relu(%0)\nreturn %1\n")).value();
  writer.begin_session({{"optimizer.lr", 0.5}, {"model.name", "lenet"}, {"model.dropout", true}}, {"test/accuracy"})
      .value();
  writer.end_session(SessionEnd::success).value();
  const auto events = events_of(writer.path());
  EXPECT_NE(events.at(1).graph_def().find("relu"), std::string::npos);
  const auto data = [&](std::size_t i, const std::string& tag) {
    const auto& value = events.at(i).summary().value(0);
    EXPECT_EQ(value.tag(), tag);
    EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "hparams");
    events::HParamsPluginData parsed;
    EXPECT_TRUE(parsed.ParseFromString(value.metadata().plugin_data().content()));
    return parsed;
  };
  const auto experiment = data(2, "_hparams_/experiment").experiment();
  ASSERT_EQ(experiment.hparam_infos_size(), 3);
  EXPECT_EQ(experiment.hparam_infos(1).type(), events::HParamInfo::DATA_TYPE_STRING);
  EXPECT_EQ(experiment.metric_infos(0).name().tag(), "test/accuracy");
  const auto start = data(3, "_hparams_/session_start_info").session_start_info();
  EXPECT_EQ(start.hparams().at("optimizer.lr").number_value(), 0.5);
  EXPECT_EQ(start.hparams().at("model.name").string_value(), "lenet");
  EXPECT_TRUE(start.hparams().at("model.dropout").bool_value());
  EXPECT_EQ(data(4, "_hparams_/session_end_info").session_end_info().status(), events::SessionEndInfo::STATUS_SUCCESS);
}

TEST(EventWriter, EveryRecordBeforeATornTailIsWhole) {
  const testing::TemporaryFolder folder;
  auto writer = writer_in(folder.path());
  std::vector<std::size_t> ends = {testing::read_text(writer.path()).size()};
  for (int step = 1; step <= 3; ++step) {
    writer.scalar(step, "loss", step).value();
    ends.push_back(testing::read_text(writer.path()).size());  // nothing stays behind in a buffer
  }
  const std::string whole = testing::read_text(writer.path());
  for (std::size_t cut = ends[0]; cut < whole.size(); ++cut) {
    const auto good = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin());
    EXPECT_EQ(graph::read_records(whole.substr(0, ends[good - 1])).size(), good);
    if (cut != ends[good - 1]) {
      EXPECT_NE(
          testing::error_of([&] { graph::read_records(whole.substr(0, cut)); }).find(fmt::format("record {}", good)),
          std::string::npos);
    }
  }
}

TEST(EventWriter, TellsWhenTheFolderCannotBeWritten) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "file", "x");
  EXPECT_FALSE(EventWriter::create(folder / "file"));
}

}  // namespace
}  // namespace starling::train
