#include "starling/train/monitor/server_scalars.h"

#include <gtest/gtest.h>

#include <map>

namespace starling::train {
namespace {

TEST(ServerScalars, TellWhatCameSinceTheLastRecord) {
  const dist::ps::Counters before{{"staleness.0", 4}, {"staleness.2", 1}, {"bytes_in", 1e6}, {"updates", 5}};
  const dist::ps::Counters now{{"staleness.0", 4},  {"staleness.2", 2},   {"staleness.3", 3}, {"staleness.largest", 3},
                               {"bytes_in", 3.5e6}, {"queue.largest", 7}, {"updates", 9}};
  std::map<std::string, double> told;
  for (const auto& [tag, value] : server_scalars(before, now)) told[tag] = value;
  EXPECT_EQ(told.at("servers/staleness"), (2 + 3 * 3) / 4.0);
  EXPECT_EQ(told.at("servers/staleness_largest"), 3);
  EXPECT_EQ(told.at("servers/gap"), 0) << "nobody has read";
  EXPECT_EQ(told.at("servers/queue_largest"), 7);
  EXPECT_EQ(told.at("servers/megabytes_in"), 2.5);
  EXPECT_EQ(told.at("servers/updates"), 4);
  EXPECT_FALSE(told.contains("servers/megabytes_coded")) << "nothing was coded";
  const auto coded =
      server_scalars({{"coded_bytes", 1e6}}, {{"coded", 1}, {"coded_bytes", 2e6}, {"decoded_bytes", 32e6}});
  EXPECT_EQ(coded[coded.size() - 2].value, 1);
  EXPECT_EQ(coded.back().tag, "servers/megabytes_decoded");
  EXPECT_EQ(coded.back().value, 32);
  for (const auto& [tag, value] :
       server_scalars({{"queue_of.0.rounds", 4}, {"queue_of.0.requests", 4}}, {{"queue_of.0.rounds", 6},
                                                                               {"queue_of.0.requests", 14},
                                                                               {"queue_of.1.rounds", 3},
                                                                               {"queue_of.1.requests", 3}}))
    told[tag] = value;
  EXPECT_EQ(told.at("servers/queue_of/0"), 5) << "ten requests in two rounds";
  EXPECT_EQ(told.at("servers/queue_of/1"), 1);
  EXPECT_TRUE(server_scalars({}, {}).empty()) << "a run without servers";
}

TEST(ServerScalars, TellTheCodedGradientsOfEachWeight) {
  const dist::ps::Counters before{{"decoded_bytes.fc.weight", 32e6}, {"coded_bytes.fc.weight", 1e6}};
  const dist::ps::Counters now{{"decoded_bytes.fc.weight", 64e6},
                               {"coded_bytes.fc.weight", 3e6},
                               {"codec_error.fc.weight", 0.5},
                               {"decoded_bytes", 64e6}};
  std::map<std::string, double> told;
  for (const auto& [tag, value] : traffic_scalars(before, now)) told[tag] = value;
  EXPECT_EQ(told, (std::map<std::string, double>{{"codec/fc.weight/megabytes_before", 32},
                                                 {"codec/fc.weight/megabytes_after", 2},
                                                 {"codec/fc.weight/error", 0.5}}));
}

}  // namespace
}  // namespace starling::train
