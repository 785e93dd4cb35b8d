#include "starling/base/config/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace starling {
namespace {

using Words = std::vector<std::string>;

TEST(Nearest, FindsTheWordThatWasMistyped) {
  EXPECT_EQ(nearest("sede", {"epochs", "seed", "steps"}), "seed");  // two letters swapped are one mistake
  EXPECT_EQ(nearest("optimzer", {"optimizer", "model"}), "optimizer");
  EXPECT_EQ(nearest("LeNet", {"lenet", "resnet18"}), "lenet");
  EXPECT_EQ(nearest("fashion_mnits", {"mnist", "fashion_mnist"}), "fashion_mnist");
}

TEST(Nearest, SuggestsNothingFarFetched) {
  EXPECT_EQ(nearest("bad", Words{"mae", "mse", "auc"}), "");
  EXPECT_EQ(nearest("path", Words{"batch", "stream"}), "");
  EXPECT_EQ(nearest("colour", Words{"epochs", "folder"}), "");
  EXPECT_EQ(nearest("x", Words{}), "");
}

TEST(Nearest, KnowsWhatOtherFrameworksCallIt) {
  EXPECT_EQ(nearest("learning_rate", Words{"lr", "momentum"}), "lr");
  EXPECT_EQ(nearest("path", Words{"batch", "folder"}), "folder");
  EXPECT_EQ(nearest("ddp", Words{"allreduce", "easgd"}), "allreduce");
  EXPECT_EQ(nearest("float32", Words{"f32", "bf16", "f16"}), "f32");
  EXPECT_EQ(nearest("dense", Words{"linear", "conv2d"}), "linear");
  EXPECT_EQ(nearest("learning_rate", Words{"classes", "image"}), "") << "no such thing here";
}

TEST(Nearest, LooksPastWordsThatOnlyCount) {
  EXPECT_EQ(nearest("batch_size", Words{"batch", "eval_batch"}), "batch");
  EXPECT_EQ(nearest("num_classes", Words{"classes", "channels"}), "classes");
  EXPECT_EQ(nearest("max_epochs", Words{"epochs", "steps"}), "epochs");
  EXPECT_EQ(nearest("num-workers", Words{"workers", "threads"}), "workers");
}

}  // namespace
}  // namespace starling
