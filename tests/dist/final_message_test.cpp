#include "starling/dist/launch/final_message.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace starling::dist {
namespace {

// Run in a child process, since the preparation cannot be undone.
TEST(FinalMessage, TellRankHostSignalAndStep) {
  EXPECT_EXIT(
      {
        prepare_final_message(2, "alpha");
        prepare_final_message(2, "alpha");  // a second call changes nothing
        note_last_step(37);
        ::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "^starling: rank 2 on alpha is ended by SIGTERM after step 37\n$");
}

TEST(FinalMessage, CallThePreviousSignalHandler) {
  EXPECT_EXIT(
      {
        ::signal(SIGTERM, [](int signal) { ::signal(signal, SIG_DFL); });
        prepare_final_message(2, "alpha");
        note_last_step(37);
        ::raise(SIGTERM);
        (void)!::write(STDERR_FILENO, "saved\n", 6);
        ::raise(SIGTERM);  // a second signal kills, as the handler intends
      },
      ::testing::KilledBySignal(SIGTERM), "^starling: rank 2 on alpha is ended by SIGTERM after step 37\nsaved\n$");
}

TEST(FinalMessage, OfARankThatFailsAreWrittenOnce) {
  EXPECT_EXIT(
      {
        prepare_final_message(0, "alpha");
        write_failure();
        note_last_step(1);
        write_failure();
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^starling: rank 0 on alpha failed\n$");
}

TEST(FinalMessage, OfAProcessThatIsNoRankOrHasALauncherAreNone) {
  EXPECT_EXIT(
      {
        note_last_step(37);
        write_final_message(SIGINT);
        write_failure();
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

TEST(FinalMessage, OfAHostWithAVeryLongNameAreCutShort) {
  EXPECT_EXIT(
      {
        prepare_final_message(1, std::string(1000, 'h'));
        note_last_step(1'000'000'000'000);
        write_final_message(SIGUSR1);
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "hh.*is ended by signal 10 after step 1000000000000\n$");
}

}  // namespace
}  // namespace starling::dist
