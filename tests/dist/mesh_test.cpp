#include "starling/dist/mesh/mesh.h"

#include <gtest/gtest.h>

#include <thread>

#include "dist/hosts_worlds.h"
#include "dist/mesh_worlds.h"

namespace starling::dist {
namespace {

using Ranks = std::vector<int>;

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MeshShape, NumbersRanksRowMajorWithTheFirstAxisOutermost) {
  const MeshShape shape({{"data", 2}, {"model", 3}});
  EXPECT_EQ(shape.ranks(), 6);
  EXPECT_EQ(shape.size("model"), 3);
  EXPECT_EQ(shape.describe(), "data 2 x model 3");
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(shape.coordinates(rank), (Ranks{rank / 3, rank % 3}));
    EXPECT_EQ(shape.rank_at(shape.coordinates(rank)), rank);
  }
  EXPECT_EQ(shape.coordinate(5, "data"), 1);
}

TEST(MeshShape, GroupsRanksThatDifferAlongTheGivenAxesOnly) {
  const MeshShape shape({{"data", 2}, {"pipe", 2}, {"model", 3}});
  EXPECT_EQ(shape.group(4, {"model"}), (Ranks{3, 4, 5}));
  EXPECT_EQ(shape.group(4, {"pipe"}), (Ranks{1, 4}));
  EXPECT_EQ(shape.group(4, {"data"}), (Ranks{4, 10}));
  EXPECT_EQ(shape.group(4, {"model", "data"}), (Ranks{3, 4, 5, 9, 10, 11}));
  EXPECT_EQ(shape.group(4, {"data", "pipe", "model"}).size(), 12u);
  EXPECT_EQ(shape.group_name({"model", "data"}), "data+model");
}

TEST(MeshShape, NamesWhatIsWrong) {
  using Axes = std::vector<MeshAxis>;
  const auto made = [](Axes axes) { return error_of([&] { MeshShape{axes}; }); };
  EXPECT_EQ(made({}), "[mesh] expected at least one axis, got none");
  EXPECT_EQ(made({{"data", 0}}), "[mesh] expected at least one rank along each axis, got 0 along 'data'");
  EXPECT_EQ(made({{"x", 2}, {"y", 2}, {"x", 3}}), "[mesh] expected axes of different names, got 'x' twice");
  EXPECT_EQ(made({{"a+b", 2}}), "[mesh] expected axes with a name without '+', which joins names, got 'a+b'");
  EXPECT_EQ(made({{"a", 65536}, {"b", 65536}}), "[mesh] expected at most 65536 ranks, got 4294967296 or more");
  const MeshShape shape({{"data", 2}, {"model", 3}});
  EXPECT_EQ(error_of([&] { shape.size("modle"); }), "[mesh] expected one of the axes data, model, got 'modle'");
  EXPECT_EQ(error_of([&] { shape.group(0, {"data", "data"}); }), "[mesh] expected each axis once, got 'data' twice");
  EXPECT_EQ(error_of([&] { shape.coordinates(6); }), "[mesh] expected a rank in [0, 6), got 6");
  EXPECT_EQ(error_of([&] { shape.rank_at(Ranks{1, 3}); }), "[mesh] expected 'model' in [0, 3), got 3");
}

Backend hosts_backend() {
  return {"hosts", [](int world) {
            std::vector<int> host_of;
            for (int rank = 0; rank < world; ++rank) host_of.push_back(rank % 2);
            return hosts_comms(shared_and_transport(), host_of);
          }};
}

// Sum of the world ranks of each group, through every kind of communicator.
TEST(Mesh, EveryBackendReducesAlongEachAxis) {
  const std::vector<MeshShape::Axes> joined{{"pipe", "model"}};
  for (const Backend& backend :
       {threads_backend(), checking_backend(), faulty_backend(), shared_backend(), memory_backend(), hosts_backend()}) {
    SCOPED_TRACE(backend.name);
    const Comms comms = backend.make(8);
    run_ranks(comms, [&](Comm& comm) {
      const Mesh mesh(comm, {{"data", 2}, {"pipe", 2}, {"model", 2}}, {.joined = joined});
      for (const MeshShape::Axes& axes : {MeshShape::Axes{"data"}, {"pipe"}, {"model"}, {"pipe", "model"}}) {
        Comm& group = mesh.group(mesh.shape().group_name(axes));
        const Ranks members = mesh.shape().group(comm.rank(), axes);
        EXPECT_EQ(members[static_cast<std::size_t>(group.rank())], comm.rank());
        double sum = comm.rank(), want = 0;
        for (int member : members) want += member;
        group.all_reduce(&sum, &sum, 1, DType::f64, ReduceOp::sum).wait();
        EXPECT_EQ(sum, want);
      }
      comm.barrier().wait();
    });
  }
}

TEST(Mesh, RefusesOtherNumbersOfRanksBeforeAnythingIsSent) {
  const Comms comms = make_thread_comms(4);
  const std::vector<std::string> errors = errors_of(comms, [](Comm& comm) { Mesh(comm, {{"data", 2}, {"model", 3}}); });
  for (const std::string& error : errors)
    EXPECT_TRUE(contains(error, "[mesh] expected 6 ranks for data 2 x model 3, got 4")) << error;
  for (const auto& comm : comms) EXPECT_EQ(comm->journal().last_sequence(CommOp::split, -1), 0u);
}

TEST(Mesh, NamesItsGroupsWhenAskedForAnother) {
  on_mesh(2, 2, [](const Mesh& mesh) {
    EXPECT_TRUE(contains(error_of([&] { mesh.group("modle"); }), "[mesh] expected one of the groups data, model, got"));
    EXPECT_TRUE(contains(error_of([&] { mesh.group(""); }), "[mesh] expected the name of a group, got an empty one"));
  });
}

// Thread ranks sleep on one notifier for all groups: whoever ends the operation of another thread must wake it.
TEST(Mesh, GroupsAreUsedByOneThreadEachAtTheSameTime) {
  on_mesh(2, 2, [](const Mesh& mesh) {
    const auto count = [&](const char* name) {
      Comm& group = mesh.group(name);
      for (int i = 0; i < 200; ++i) {
        double sum = 1;
        group.all_reduce(&sum, &sum, 1, DType::f64, ReduceOp::sum).wait();
        EXPECT_EQ(sum, 2);
      }
    };
    std::jthread other([&] { count("data"); });
    count("model");
  });
}

}  // namespace
}  // namespace starling::dist
