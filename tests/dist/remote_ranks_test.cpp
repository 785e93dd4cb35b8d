#include <sys/stat.h>

#include "dist/launched_scripts.h"
#include "starling/dist/launch/launcher/remote_shell.h"

namespace starling::dist {
namespace {

using testing::error_of;

// A remote host, emulated by a local shell: `ssh HOST COMMAND`.
class RemoteRanks : public Supervisor {
 protected:
  RemoteRanks() {
    testing::write_text(folder_ / "ssh", "#!/bin/sh\necho \"$@\" >> '" + (folder_ / "calls").string() +
                                             "'\nshift 2\nexec env -i PATH=\"$PATH\" /bin/sh -c \"$*\"\n");
    ::chmod((folder_ / "ssh").c_str(), 0755);
  }
  LaunchOptions remote(const std::string& script, const std::vector<HostSlots>& hosts) const {
    int ranks = 0;
    for (const auto& host : hosts) ranks += host.slots;
    LaunchOptions made = options(script, ranks);
    made.slots = *assign_ranks(ranks, hosts);
    made.ssh = (folder_ / "ssh").string() + " -x";
    made.address = "127.0.0.1";  // the "remote" host is this one
    return made;
  }
};

TEST_F(RemoteRanks, AreStartedThroughSshAndToldTheirPlaceThere) {
  const auto launched =
      run(remote("echo $STARLING_RANK $STARLING_LOCAL_RANK/$STARLING_LOCAL_WORLD ${#STARLING_SECRET} in $PWD",
                 {{"localhost", 1}, {"far.example", 2}}));
  EXPECT_EQ(launched.end.code, 0);
  const std::string here = std::filesystem::current_path().string();
  EXPECT_TRUE(contains(launched.out, "[0] 0 0/1 64 in " + here));
  EXPECT_TRUE(contains(launched.out, "[1] 1 0/2 64 in " + here));
  EXPECT_TRUE(contains(launched.out, "[2] 2 1/2 64 in " + here));
  EXPECT_EQ(testing::read_text(folder_ / "calls"), "-x far.example exec /bin/sh\n-x far.example exec /bin/sh\n");
}

TEST_F(RemoteRanks, NeverGetTheSecretOnACommandLine) {
  auto secret = remote(
      "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' > $DIR/lines; test \"$STARLING_SECRET\" = \"$(cat $DIR/secret)\"",
      {{"far.example", 1}});
  secret.secret = "quite a long secret's text with \"quotes\" and $HOME";
  testing::write_text(folder_ / "secret", secret.secret);
  EXPECT_EQ(run(secret).end.code, 0);
  EXPECT_EQ(testing::read_text(folder_ / "lines").find("quite a long secret"), std::string::npos);
}

TEST_F(RemoteRanks, ThatFailAreNamedWithTheirHost) {
  const auto launched = run(remote(kNotePid + "if [ $STARLING_RANK = 1 ]; then echo no disk >&2; exit 4; fi; sleep 60",
                                   {{"near.example", 1}, {"far.example", 1}}));
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) exited with code 4"));
  EXPECT_TRUE(launched.err.ends_with("[1] no disk\n"));
  EXPECT_TRUE(all_gone());
}

TEST_F(RemoteRanks, ThatDieOfASignalAreNamedWithIt) {
  const auto launched = run(remote(
      kNotePid + "if [ $STARLING_RANK = 1 ]; then kill -SEGV $$; fi; trap '' TERM; while true; do sleep 0.05; done",
      {{"near.example", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) was killed by SIGSEGV"));
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_TRUE(all_gone());
}

// A local rank learns of the death from closed connections, before the remote shell reports it.
TEST_F(RemoteRanks, AreNamedThoughAnotherRankFailsOfTheirDeathBeforeItIsKnownHere) {
  testing::write_text(folder_ / "ssh", "#!/bin/sh\nshift 2\n/bin/sh -c \"$*\"\ncode=$?\nsleep 0.2\nexit $code\n");
  const auto launched =
      run(remote("if [ $STARLING_RANK = 1 ]; then touch $DIR/up; kill -KILL $$; fi\n"
                 "until [ -e $DIR/up ]; do sleep 0.01; done; echo rank 1 is lost >&2; exit 1",
                 {{"localhost", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) was killed by SIGKILL"));
  const auto unharmed = run(remote("if [ $STARLING_RANK = 0 ]; then exit 1; fi; trap '' TERM; sleep 60",
                                   {{"localhost", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(unharmed.err, "rank 0 (pid "));
  EXPECT_LT(unharmed.seconds, kAtOnce);
}

TEST_F(RemoteRanks, AFailedConnectionIsToldFromAFailedRank) {
  const auto launched = run(remote("exit 255", {{"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 0 (on far.example) lost its connection"));
}

TEST_F(RemoteRanks, HearStopsThroughTheConnection) {
  auto stopped =
      remote("trap 'echo $STARLING_RANK saves; exit 130' TERM; touch $DIR/up; while true; do sleep 0.02; done",
             {{"far.example", 1}});
  stopped.stop = [this] {
    return std::filesystem::exists(folder_ / "up") ? LaunchOptions::Stop{SIGTERM, 1} : LaunchOptions::Stop{};
  };
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_TRUE(contains(launched.out, "[0] 0 saves"));
}

// The shell starts a program that ignores SIGINT until it has a handler of its own: a stop that comes earlier, or to
// one that never has any, is heard all the same.
TEST_F(RemoteRanks, HearCtrlCBeforeTheyHaveAHandlerForIt) {
  auto stopped = remote("touch $DIR/up; exec sleep 60", {{"far.example", 1}});
  stopped.stop = [this] {
    return std::filesystem::exists(folder_ / "up") ? LaunchOptions::Stop{SIGINT, 1} : LaunchOptions::Stop{};
  };
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_LT(launched.seconds, kAtOnce) << "the time after which it is killed";
}

TEST_F(RemoteRanks, DieWhenTheConnectionDoes) {
  const auto launched =
      run(remote(kNotePid + "if [ $STARLING_RANK = 0 ]; then sleep 0.3; kill -KILL $PPID; fi; trap '' TERM; sleep 60",
                 {{"far.example", 1}, {"farther.example", 1}}));
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_TRUE(all_gone());
}

TEST(Hosts, AreReadFromLines) {
  const auto hosts =
      parse_hosts("# ours\nalpha slots=4\n\n  beta   # one rank\nuser@gamma.example slots=2\n", "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.error();
  ASSERT_EQ(hosts->size(), 3);
  EXPECT_EQ((*hosts)[0].host, "alpha");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].slots, 1);
  EXPECT_EQ((*hosts)[2].host, "user@gamma.example");
}

TEST(Hosts, InvalidLinesAreRefusedNamingTheLine) {
  const auto error = [](const char* text) { return parse_hosts(text, "h").error(); };
  EXPECT_TRUE(contains(error("a\nb slots=0\n"), "h:2: expected slots=1"));
  EXPECT_TRUE(contains(error("a slots=4x"), "h:1: expected slots=1"));
  EXPECT_TRUE(contains(error("a 4"), "got '4'"));
  EXPECT_TRUE(contains(error("a slots=4 more"), "got 'more'"));
  EXPECT_TRUE(contains(error("-oProxyCommand=evil"), "h:1: expected the name of a host"));
  EXPECT_TRUE(contains(error("a;reboot"), "expected the name of a host"));
  EXPECT_TRUE(contains(error("a\na\n"), "h:2: expected every host once"));
  EXPECT_TRUE(contains(error("# none\n"), "got none"));
}

TEST(Hosts, AreFilledInOrder) {
  const auto seated = assign_ranks(3, {{"localhost", 2}, {"far.example", 4}});
  ASSERT_TRUE(seated.ok());
  EXPECT_FALSE((*seated)[1].remote);
  EXPECT_EQ((*seated)[1].local_rank, 1);
  EXPECT_EQ((*seated)[1].local_world, 2);
  EXPECT_TRUE((*seated)[2].remote);
  EXPECT_EQ((*seated)[2].local_world, 1);
  EXPECT_TRUE(
      contains(assign_ranks(7, {{"localhost", 2}, {"far.example", 4}}).error(), "7 ranks on the hosts, got 6 on 2"));
}

TEST(RemoteScript, QuotesWhateverItIsGiven) { EXPECT_EQ(quoted("it's $HOME `x`"), "'it'\\''s $HOME `x`'"); }

}  // namespace
}  // namespace starling::dist
