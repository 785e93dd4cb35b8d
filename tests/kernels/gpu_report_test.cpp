#include <gtest/gtest.h>

#include "starling/kernels/gpu_facts.h"

namespace starling::kernels {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

GpuFacts machine() {
  GpuFacts facts{.built = true, .nodes = true, .driver = 130000, .runtime = 130000};
  facts.cublaslt = 130002;
  facts.cudnn = 91200;
  facts.cudnn_built = true;
  facts.nccl = 22703;
  facts.gpus = {{"NVIDIA H200", std::int64_t{140} << 30, std::int64_t{139} << 30, 9, 0}};
  return facts;
}

std::string told(const GpuFacts& facts) {
  std::string text;
  for (const auto& [what, found] : gpu_report(facts)) text += what + ": " + found + "\n";
  return text;
}

TEST(GpuReport, NamesGpuDriverAndLibraries) {
  EXPECT_EQ(gpu_report(machine()), (Lines{{"CUDA", "13.0 built in, driver for 13.0"},
                                          {"GPU 0", "NVIDIA H200, 140.0 GiB, 139.0 GiB free, compute capability 9.0"},
                                          {"", "cuBLASLt 13.0.2, cuDNN 9.12, NCCL 2.27.3"}}));
}

TEST(GpuReport, ABuildWithoutCudaSaysHowToGetIt) {
  EXPECT_EQ(gpu_report({}), (Lines{{"CUDA", "not built in (needs the CUDA toolkit: cmake --preset cuda)"}}));
}

TEST(GpuReport, TellsWhatIsWrongWithTheDriver) {
  GpuFacts none = machine();
  none.gpus.clear();
  none.driver = 0;
  EXPECT_NE(told(none).find("13.0 built in, no driver library, though the device files are there"), std::string::npos);
  none.nodes = false;
  EXPECT_NE(told(none).find("no driver (install NVIDIA's"), std::string::npos);
  none.driver = 120400;
  EXPECT_NE(told(none).find("the driver runs CUDA up to 12.4, this build needs 13.0"), std::string::npos);
  none.driver = 130000;
  EXPECT_NE(told(none).find("no device files (/dev/nvidiactl"), std::string::npos);
  none.nodes = true;
  EXPECT_NE(told(none).find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  none.refusal = "initialization error";
  EXPECT_NE(told(none).find("no GPU that can be used: initialization error"), std::string::npos);
}

// A driver of the same major version runs programs of a later minor one.
TEST(GpuReport, ANewerMinorVersionIsNoTrouble) {
  GpuFacts facts = machine();
  facts.runtime = 130100;
  EXPECT_NE(told(facts).find("13.1 built in, driver for 13.0"), std::string::npos);
}

TEST(GpuReport, TellsWhatIsWrongWithAGpu) {
  GpuFacts facts = machine();
  facts.gpus[0].major = 8;
  facts.gpus.push_back({"NVIDIA H200", 0, 0, 9, 0, "out of memory"});
  EXPECT_NE(told(facts).find("compute capability 8.0; this build's kernels need 9.0 (Hopper) or newer"),
            std::string::npos);
  EXPECT_NE(told(facts).find("GPU 1: NVIDIA H200, 0.0 GiB, 0.0 GiB free, compute capability 9.0; it cannot be used: "
                             "out of memory"),
            std::string::npos);
}

TEST(GpuReport, TellsWhichLibrariesAreMissing) {
  GpuFacts facts = machine();
  facts.nccl = facts.cudnn = facts.cublaslt = 0;
  EXPECT_NE(told(facts).find("no cuBLASLt (libcublasLt was not found: products cannot run), no cuDNN (libcudnn does "
                             "not load), no NCCL"),
            std::string::npos);
  facts.cudnn_built = false;
  EXPECT_NE(told(facts).find("no cuDNN (install it and build again"), std::string::npos);
}

}  // namespace
}  // namespace starling::kernels
