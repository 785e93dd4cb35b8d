#include "starling/data/formats/cifar.h"

#include <gtest/gtest.h>

#include "../byte_helpers.h"
#include "starling/base/bytes.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using testing::golden;

TEST(Cifar, ReadsImagesAndLabels) {
  const Tensor images = testing::golden_arrays("cifar.npz").at("images");
  const CifarPart ten = read_cifar(golden("cifar10.bin"), CifarKind::cifar10);
  EXPECT_EQ(ten.labels.to_vector(), (std::vector<double>{3, 9, 0}));
  EXPECT_EQ(ten.images.to_vector(), images.to_vector());
  EXPECT_EQ(to_string(ten.images.type()), "u8[3, 3, 32, 32]");
  const CifarPart hundred = read_cifar(golden("cifar100.bin"), CifarKind::cifar100);
  EXPECT_EQ(hundred.labels.to_vector(), (std::vector<double>{99, 5, 42}));
  EXPECT_EQ(hundred.coarse_labels.to_vector(), (std::vector<double>{1, 19, 0}));
  EXPECT_EQ(hundred.images.to_vector(), images.to_vector());
}

TEST(Cifar, RefusesPartsOfRecordsAndUnknownLabels) {
  const std::string whole = testing::read_text(golden("cifar10.bin"));
  const auto error = [](const std::string& bytes) {
    return error_of([&] { parse_cifar(as_bytes(bytes), "f", CifarKind::cifar10); });
  };
  EXPECT_NE(error(whole.substr(0, whole.size() - 1)).find("records of 3073 bytes"), std::string::npos);
  EXPECT_NE(error(""), "");
  EXPECT_NE(error('\x0a' + whole.substr(1)).find("below 10 in record 0, got 10"), std::string::npos);
}

}  // namespace
}  // namespace starling::data
