#include "starling/dist/comm/transport/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/backend.h"

namespace starling::dist {
namespace {

TEST(Plugin, ThatIsNotThereTellsItsFile) {
  const Plugin none("libstarling_pigeons.so", {"starling_fly"});
  EXPECT_FALSE(none.loaded());
  EXPECT_TRUE(contains(none.error(), "libstarling_pigeons.so")) << none.error();
  EXPECT_EQ(none.function<void (*)()>("starling_fly"), nullptr);
}

// The library that asks stands beside itself.
TEST(Plugin, GivesTheFunctionsThatItMustHave) {
  Dl_info library{};
  dladdr(reinterpret_cast<const void*>(&comm_backends), &library);
  if (std::string_view(library.dli_fname).find("libstarling") == std::string_view::npos)
    GTEST_SKIP() << "the library is a part of this program";
  const Plugin own("libstarling.so", {"starling_fly"});
  EXPECT_FALSE(own.loaded());
  EXPECT_TRUE(contains(own.error(), "starling_fly")) << own.error();
  const Plugin fits("libstarling.so", {"crc32"});  // of zlib, which it needs
  ASSERT_TRUE(fits.loaded()) << fits.error();
  EXPECT_EQ(fits.function<decltype(&crc32)>("crc32"), &crc32);
}

}  // namespace
}  // namespace starling::dist
