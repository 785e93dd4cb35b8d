// Pushes in the form of a codec, without a wire: what they weigh, what servers make of them, and what is kept.
#include "starling/dist/ps/coded_push.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "dist/ps/ps_testing.h"
#include "starling/base/half.h"
#include "starling/dist/ps/served_keys.h"

namespace starling::dist::ps {
namespace {

const std::vector<ServedTensor> kMatrix{{.name = "w", .type = {DType::f32, {24, 70}}, .by_rows = true}};

PushCodec push_codec(const std::string& text) { return PushCodec(CodecChoice::parse(text)); }

Tensor drawn_like(const TensorType& type, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  Tensor made = empty(type.shape, type.dtype);
  for (std::int64_t i = 0; i < made.numel(); ++i) made.data<float>()[i] = std::pow(normal(generator), 3.0F);
  return made;
}

// One worker and its servers, which add up what is pushed; requests are carried by hand.
class CodedWorld {
 public:
  CodedWorld(const std::string& worker, const std::string& server, int servers = 2)
      : table(kMatrix, servers), codec(push_codec(worker), table), given(zeros({24, 70}, DType::f64)) {
    for (int s = 0; s < servers; ++s) {
      served.push_back(
          std::make_unique<ServedKeys>(table, s, optim::OptimizerMaker(), ClockOptions{}, push_codec(server)));
      for (const Key& key : table.held_by(s))
        expect_done(carry({.verb = Verb::put, .key = key.id}, {share(zeros(table.type_of(key).shape))}));
    }
  }
  Result<void> carry(const Header& header, const std::vector<Bytes>& parts) {
    return served[static_cast<std::size_t>(table.keys()[header.key].server)]->change(header, parts);
  }
  static void expect_done(const Result<void>& result) { EXPECT_TRUE(result.ok()) << result.error(); }

  Header header_of(const Key& key) {
    return {.verb = Verb::push, .key = key.id, .number = ++number, .form = codec.form_of(key)};
  }
  std::vector<Message> step(int seed) {
    const Tensor gradient = drawn_like(kMatrix[0].type, seed);
    for (std::int64_t i = 0; i < gradient.numel(); ++i)
      given.data<double>()[i] += static_cast<double>(gradient.data<float>()[i]);
    std::vector<Message> sent;
    for (const Key& key : table.keys())
      sent.push_back({header_of(key), {codec.encode(key, gradient.data<float>() + key.begin)}});
    for (const Message& message : sent) expect_done(carry(message.header, message.parts));
    return sent;
  }
  void release() {
    for (const Key& key : table.keys()) {
      if (!codec.keeps(key)) continue;
      Header header = header_of(key);
      header.form = kPlain;
      expect_done(carry(header, {codec.release(key)}));
    }
  }
  std::vector<float> held() {
    std::vector<float> all(static_cast<std::size_t>(24 * 70));
    for (const Key& key : table.keys()) {
      const Message told = served[static_cast<std::size_t>(key.server)]->read(
          {.verb = Verb::pull, .worker = kObserver, .key = key.id}, {});
      std::memcpy(all.data() + key.begin, told.parts[0].data, table.bytes(key));
    }
    return all;
  }
  // Largest distance of what servers hold from the sum of all gradients.
  double behind() {
    const auto now = held();
    double most = 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(now[i]) - given.data<double>()[i]));
    return most;
  }

  KeyTable table;
  CodedPushes codec;
  std::vector<std::unique_ptr<ServedKeys>> served;
  Tensor given;
  std::uint64_t number = 0;
};

std::size_t bytes_of_all(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes += payload_bytes(message);
  return bytes;
}

TEST(PsCodedPush, OfSixteenBitsIsHalfOfTheBytesAndRoundsAsStorageDoes) {
  for (const char* name : {"fp16", "bf16"}) {
    CodedWorld world(name, name);
    EXPECT_EQ(2 * bytes_of_all(world.step(1)), 24U * 70 * 4) << name;
    const Tensor one = drawn_like(kMatrix[0].type, 1);
    const auto held = world.held();
    for (std::size_t i = 0; i < held.size(); ++i) {
      const float x = one.data<float>()[i];
      EXPECT_EQ(held[i],
                name == std::string("fp16") ? Half::from_float(x).to_float() : BFloat16::from_float(x).to_float())
          << name << " " << i;
    }
    EXPECT_FALSE(world.codec.keeps()) << "rounding is lost";
    EXPECT_GT(world.behind(), 0) << "control: rounded at all";
  }
}

TEST(PsCodedPush, OfOneBitIsABitAValueAndTwoFloatsALine) {
  CodedWorld world("one_bit", "one_bit");
  EXPECT_EQ(bytes_of_all(world.step(1)), 24U * ((70 + 7) / 8 + 8));
}

// Nothing is lost: all that is not sent is kept, and is pushed as it is when a worker settles.
TEST(PsCodedPush, IsSentOrKept) {
  for (const char* name : {"one_bit", "{name: top_k, share: 0.05}", "{name: threshold, threshold: 0.5}"}) {
    CodedWorld world(name, name);
    for (int s = 0; s < 5; ++s) world.step(s);
    EXPECT_GT(world.behind(), 0.1) << "control: what was sent alone is something else, " << name;
    EXPECT_TRUE(world.codec.keeps()) << name;
    world.release();
    EXPECT_LT(world.behind(), 2e-4) << name;
    EXPECT_FALSE(world.codec.keeps()) << name;
    for (int s = 5; s < 8; ++s) world.step(s);
    world.release();
    EXPECT_LT(world.behind(), 2e-4) << "and once more, " << name;
  }
  CodedWorld without("{name: one_bit, feedback: false}", "one_bit");
  for (int s = 0; s < 5; ++s) without.step(s);
  without.release();
  EXPECT_GT(without.behind(), 0.1) << "control: without feedback it is gone";
  CodedWorld all("{name: top_k, share: 1}", "{name: top_k, share: 1}");
  for (int s = 0; s < 3; ++s) all.step(s);
  EXPECT_LT(all.behind(), 2e-5) << "all values: dense";
}

TEST(PsCodedPush, ThatIsRepeatedChangesNothing) {
  CodedWorld world("one_bit", "one_bit");
  const auto sent = world.step(1);
  const auto held = world.held();
  for (const Message& message : sent) CodedWorld::expect_done(world.carry(message.header, message.parts));
  EXPECT_EQ(world.held(), held);
  Message again = sent[0];
  again.header.number = 1000;
  CodedWorld::expect_done(world.carry(again.header, again.parts));
  EXPECT_NE(world.held(), held) << "control: with another number it counts";
}

TEST(PsCodedPush, ChecksWhatPeersSend) {
  CodedWorld world("one_bit", "one_bit");
  auto sent = world.step(1);
  const auto held = world.held();
  const auto refused = [&](const std::string& part, auto&& spoil) {
    Message message = sent[0];
    message.header.number = ++world.number;
    spoil(message);
    const auto result = world.carry(message.header, message.parts);
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_NE(result.error().find(part), std::string::npos) << result.error();
  };
  refused("form of the job's codec", [](Message& m) { m.header.form = push_codec("fp16").form(); });
  refused("got a coded gradient", [](Message& m) { m.parts.push_back(m.parts[0]); });
  refused("bytes", [](Message& m) { --m.parts[0].size; });
  refused("at most", [](Message& m) { m.parts[0].size += 8; });
  refused("bytes", [](Message& m) { m.header.form = kPlain; });
  CodedWorld words("threshold", "threshold");
  sent = words.step(1);
  std::vector<std::uint32_t> beyond{0x3F800000, 24 * 70 * 2};
  Message message{words.header_of(words.table.keys()[0]),
                  {{std::make_shared<int>(), reinterpret_cast<const std::byte*>(beyond.data()), 8}}};
  EXPECT_FALSE(words.carry(message.header, message.parts).ok()) << "an index beyond the values";
  message.parts[0].size = 7;
  EXPECT_FALSE(words.carry(message.header, message.parts).ok()) << "no whole words";
  EXPECT_EQ(world.held(), held);
}

// Two parts, errors of this piece's rows and all inputs, become their product.
TEST(PsCodedPush, OfFactorsIsMultipliedByItsServer) {
  CodedWorld world("factors", "factors");
  const std::int64_t rows = 5;
  const Tensor errors = drawn_like({DType::f32, {rows, 24}}, 1), inputs = drawn_like({DType::f32, {rows, 70}}, 2);
  std::vector<Message> sent;
  for (const Key& key : world.table.keys()) {
    const std::int64_t first = key.begin / 70, lines = key.size / 70;
    const Tensor own = empty({rows, lines});
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(errors.data<float>() + r * 24 + first, lines, own.data<float>() + r * lines);
    sent.push_back(
        {{.verb = Verb::push, .key = key.id, .number = ++world.number, .form = kFactors}, {share(own), share(inputs)}});
  }
  for (const int time : {1, 2}) {  // a repeat changes nothing
    for (const Message& message : sent) CodedWorld::expect_done(world.carry(message.header, message.parts));
    const auto held = world.held();
    for (std::int64_t i = 0; i < 24 * 70; ++i) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        sum += static_cast<double>(errors.data<float>()[r * 24 + i / 70]) *
               static_cast<double>(inputs.data<float>()[r * 70 + i % 70]);
      ASSERT_NEAR(static_cast<double>(held[static_cast<std::size_t>(i)]), sum, 1e-4) << i << ", time " << time;
    }
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{4 * 70 * 4}}) {
    Message wrong = sent[0];
    wrong.header.number = ++world.number;
    wrong.parts[1].size = size;
    EXPECT_FALSE(world.carry(wrong.header, wrong.parts).ok()) << size;
  }
}

// A piece that is cut within a line has no means of its lines: it travels as it is.
TEST(PsCodedPush, OfLinesCodesWholeLinesAlone) {
  const std::vector<ServedTensor> net{{.name = "w", .type = {DType::f32, {3, 70}}},
                                      {.name = "b", .type = {DType::f32, {90}}},
                                      {.name = "d", .type = {DType::f64, {4, 70}}, .whole = true}};
  const KeyTable table(net, 2);
  const CodedPushes bits(push_codec("one_bit"), table), halves(push_codec("bf16"), table);
  for (const Key& key : table.keys()) {
    const bool real = net[key.tensor].type.dtype == DType::f32;
    EXPECT_EQ(halves.codes(key), real) << key.id;
    EXPECT_EQ(bits.codes(key), real && (key.tensor == 1 || table.type_of(key).shape.rank() == 2)) << key.id;
  }
  EXPECT_GT(table.keys_of(0).size(), 1U) << "control: it is cut";
}

// Values that one_bit kept leave with the next push in another form; servers decode whatever comes.
TEST(PsCodedPush, OfAutoChangesItsFormAndLosesNothing) {
  for (const GradientForm next : {GradientForm::dense, GradientForm::bf16}) {
    CodedWorld world("auto", "auto");
    world.codec.set_form(0, GradientForm::one_bit);
    for (int step = 0; step < 4; ++step) world.step(step);
    EXPECT_GT(world.behind(), 5) << "control: what was sent alone";
    EXPECT_TRUE(world.codec.keeps());
    world.codec.set_form(0, next);
    world.step(4);
    EXPECT_FALSE(world.codec.keeps()) << name(next);
    EXPECT_LT(world.behind(), next == GradientForm::dense ? 1e-3 : 1) << name(next);
    world.codec.set_form(0, GradientForm::one_bit);
    world.step(5);
    world.release();
    EXPECT_LT(world.behind(), next == GradientForm::dense ? 1e-3 : 1) << "and back";
  }
}

// Codecs are for f32: weights of f64 travel as they are, and a server refuses a coded gradient of one.
TEST(PsCodedPush, OfF64IsNone) {
  const std::vector<ServedTensor> both{{.name = "single", .type = {DType::f32, {24, 70}}},
                                       {.name = "double", .type = {DType::f64, {24, 70}}}};
  for (const char* text : {"bf16", "one_bit", "{name: top_k, share: 0.1}", "{name: threshold, threshold: 0.1}"}) {
    const KeyTable table(both, 1);
    const CodedPushes pushes(push_codec(text), table);
    EXPECT_TRUE(pushes.codes(table.keys_of(0)[0])) << text;
    EXPECT_FALSE(pushes.codes(table.keys_of(1)[0])) << text;
    const PushCodec codec = push_codec(text);
    const Key key = table.keys_of(1)[0];
    const Tensor some = zeros({24 * 70});
    const Bytes sent[] = {share(some)};
    const auto refused =
        codec.decode({.verb = Verb::push, .key = key.id, .form = codec.form()}, both[1], table.type_of(key), sent);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_NE(refused.error().find("as they are, got a coded gradient"), std::string::npos) << refused.error();
  }
}

TEST(PsCodedPush, RefusesCodecsThatServersCannotDecode) {
  EXPECT_THROW(push_codec("power_sgd"), Error);
  EXPECT_TRUE(can_be_pushed(CodecChoice::parse("none")));
  EXPECT_FALSE(can_be_pushed(CodecChoice::parse("power_sgd")));
  EXPECT_NE(pushable_codecs().find("one_bit"), std::string::npos);
}

}  // namespace
}  // namespace starling::dist::ps
