#include "starling/train/monitor/step_details.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "events.pb.h"
#include "starling/graph/export/record_file.h"
#include "starling/nn/layers.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

// Every value of an event file by its tag.
std::map<std::string, events::Summary::Value> values_of(const std::filesystem::path& file) {
  std::map<std::string, events::Summary::Value> values;
  for (const auto& record : graph::read_records(testing::read_text(file))) {
    events::Event event;
    EXPECT_TRUE(event.ParseFromString(record));
    for (const auto& value : event.summary().value()) {
      EXPECT_EQ(event.step(), 9);
      EXPECT_TRUE(values.emplace(value.tag(), value).second) << value.tag();
    }
  }
  return values;
}

TEST(StepDetails, TellsHowFarAStepMovedEachParameter) {
  const testing::TemporaryFolder folder;
  nn::Sequential net;
  net.add("fc", nn::Linear({.in = 2, .out = 1}));
  const auto set = [&](const std::vector<double>& weight, double bias) {
    copy_into(net.parameters()[0], from_doubles(weight, {1, 2}));
    copy_into(net.parameters()[1], from_doubles(std::vector<double>{bias}, {1}));
  };
  set({3, 4}, 0);
  const StepDetails details(net);
  set({3, 4.5}, 0.25);
  auto events = EventWriter::create(folder.path()).value();
  StepValues values{.gradients = {{"fc.weight", from_doubles(std::vector<double>{NAN, -2}, {1, 2})}},
                    .activations = {{"fc", zeros({2, 1})}, {"conv1", zeros({2, 1})}, {"conv2", zeros({2, 1})}}};
  for (const auto& result : details.write(events, 9, values, {"conv*"})) EXPECT_TRUE(result) << result.error();
  const auto written = values_of(events.path());
  EXPECT_FLOAT_EQ(written.at("update_ratio/fc.weight").simple_value(), 0.1F);
  EXPECT_FALSE(written.contains("update_ratio/fc.bias"));  // the bias was 0: there is no ratio
                                                           // to relate the step to
  EXPECT_EQ(written.at("weights/fc.weight").histo().max(), 4.5);
  EXPECT_EQ(written.at("weights/fc.bias").histo().num(), 1);
  EXPECT_EQ(written.at("gradients/fc.weight").histo().min(), -2);
  EXPECT_EQ(written.at("not_finite/gradients/fc.weight").simple_value(), 1);
  EXPECT_TRUE(written.contains("activations/conv1") && written.contains("activations/conv2"));
  EXPECT_FALSE(written.contains("activations/fc"));
}

}  // namespace
}  // namespace starling::train
