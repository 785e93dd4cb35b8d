#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "starling/train/job/job_run.h"
#include "train/tiny_fashion.h"

namespace starling::train {

// Fixture of jobs on 103 tiny images in batches of 32, three full ones and a tail of 7, and 40 to evaluate on.
class TinyJobTest : public ::testing::Test {
 protected:
  // Folders of data and of runs begin with `name`; `model` is the job's.
  TinyJobTest(const std::string& name, std::string model)
      : data_(name + "-data"), runs_(name + "-runs"), model_(std::move(model)) {}

  void SetUp() override { testing::write_tiny_fashion(data_.path(), 103, 40); }

  Job job(const std::string& folder, std::vector<std::string> set) const {
    const std::string text =
        "model: " + model_ +
        "\ndata: {batch: 32}\noptimizer: {lr: 0.05, momentum: 0.9}\n"
        "train: {epochs: 2, seed: 7, export: false}\nmonitor: {scalars_every: 2, tensorboard: false}\n";
    set.push_back("data.folder=" + data_.path().string());
    set.push_back("train.folder=" + (runs_.path() / folder).string());
    set.push_back("distribute.threads=1");
    return read_job(ConfigNode::parse(text, "job.yaml", set));
  }

  static TrainResult run(const Job& job, TrainOptions options = {}) {
    options.progress.mode = ProgressMode::off;
    return run_job(job, options);
  }
  TrainResult run(const std::string& folder, std::vector<std::string> set) const {
    return run(job(folder, std::move(set)));
  }

  testing::TestFolder data_;
  testing::TestFolder runs_;

 private:
  std::string model_;
};

}  // namespace starling::train
