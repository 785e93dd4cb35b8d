#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cli/program.h"

namespace starling::testing {

// A folder with tiny data and a job of two epochs on it; paths come in quotes for the shell.
class TinyJob : public ::testing::Test {
 protected:
  explicit TinyJob(const std::string& name) : folder_(name) {}
  void SetUp() override {
    write_tiny_fashion(folder_.path(), 100, 30);
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp}\n"
        << "data: {folder: " << folder_.path().string() << ", batch: 20}\n"
        << "optimizer: {lr: 0.02}\n"
        << "train: {folder: " << run().string() << ", epochs: 2, export: false}\n";
  }

  std::filesystem::path runs() const { return folder_.path() / "runs"; }
  std::filesystem::path run() const { return runs() / "first"; }
  std::string job() const { return quoted(folder_.path() / "job.yaml"); }
  std::string of_run() const { return quoted(run()); }
  static std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }
  Ran train(const std::string& more = "") const { return run_starling("train " + job() + " --progress off " + more); }

  TestFolder folder_;
};

}  // namespace starling::testing
