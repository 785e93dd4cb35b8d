#include "starling/dist/launch/last_words.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace starling::dist {
namespace {

// Run in a child process, since the preparation cannot be undone.
TEST(LastWords, TellRankHostSignalAndStep) {
  EXPECT_EXIT(
      {
        prepare_last_words(2, "alpha");
        prepare_last_words(2, "alpha");  // a second call changes nothing
        note_last_step(37);
        ::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "^starling: rank 2 on alpha is ended by SIGTERM after step 37\n$");
}

TEST(LastWords, CallThePreviousSignalHandler) {
  EXPECT_EXIT(
      {
        ::signal(SIGTERM, [](int signal) { ::signal(signal, SIG_DFL); });
        prepare_last_words(2, "alpha");
        note_last_step(37);
        ::raise(SIGTERM);
        (void)!::write(STDERR_FILENO, "saved\n", 6);
        ::raise(SIGTERM);  // a second signal kills, as the handler intends
      },
      ::testing::KilledBySignal(SIGTERM), "^starling: rank 2 on alpha is ended by SIGTERM after step 37\nsaved\n$");
}

TEST(LastWords, OfARankThatFailsAreWrittenOnce) {
  EXPECT_EXIT(
      {
        prepare_last_words(0, "alpha");
        write_failure();
        note_last_step(1);
        write_failure();
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^starling: rank 0 on alpha failed\n$");
}

TEST(LastWords, OfAProcessThatIsNoRankOrHasALauncherAreNone) {
  EXPECT_EXIT(
      {
        note_last_step(37);
        write_last_words(SIGINT);
        write_failure();
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST(LastWords, OfAHostWithAVeryLongNameAreCutShort) {
  EXPECT_EXIT(
      {
        prepare_last_words(1, std::string(1000, 'h'));
        note_last_step(1'000'000'000'000);
        write_last_words(SIGUSR1);
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "hh.*is ended by signal 10 after step 1000000000000\n$");
}

}  // namespace
}  // namespace starling::dist
