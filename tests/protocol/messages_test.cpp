// Every message survives the wire, and what does not look like one is refused before anything is allocated.

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <map>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {
namespace {

using bytes = caf::binary_serializer::container_type;

class messages : public testing::Test {
 protected:
  template <class T>
  bytes save(const T& x) {
    bytes out;
    caf::binary_serializer sink(system_, out);
    EXPECT_TRUE(sink.apply(x)) << caf::to_string(sink.get_error());
    return out;
  }

  template <class T>
  bool load(const bytes& in, T& x) {
    caf::binary_deserializer source(system_, in);
    return source.apply(x) && source.remaining() == 0;
  }

  ~messages() override {
    for (const auto& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  /// Spawns an actor that is ended with the test.
  template <class Function>
  auto spawn(Function behavior) {
    auto handle = system_.spawn(behavior);
    spawned_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }

  std::map<caf::type_id_t, caf::message> samples();

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  std::vector<caf::actor> spawned_;
};

header some_header() { return {7, 12, 3, 1, 99, (message_id{2} << 48) | 41}; }

tensor some_tensor() { return tensor::own(2, 3, std::vector<float>{1, -2, 3.5F, 0, 1e-39F, -7}); }

blob some_indices() { return blob::own(std::vector<std::int64_t>{5, 0, -1, std::int64_t{1} << 40}); }

/// One filled-in sample of every message type, by type id.
std::map<caf::type_id_t, caf::message> messages::samples() {
  std::map<caf::type_id_t, caf::message> all;
  const auto add = [&all](auto x) { all[caf::type_id_v<decltype(x)>] = caf::make_message(std::move(x)); };
  auto server = spawn([](parameter_server_actor::pointer) {
    return parameter_server_actor::behavior_type{[](instantiate&) { return module_ref{}; },
                                                 [](lookup&) { return rows{}; },
                                                 [](gradient&) {},
                                                 [](gradient_norm&) { return squared_norm{}; },
                                                 [](optimizer_step&) { return committed{}; },
                                                 [](parameters&) { return parameter_list{}; },
                                                 [](state_dict&) { return module_state{}; },
                                                 [](load_state_dict&) { return committed{}; },
                                                 [](row_digests&) { return tensor{}; },
                                                 [](save_module&) { return saved_module{}; },
                                                 [](restore_module&) { return committed{}; },
                                                 [](release&) {},
                                                 [](actor_query&) { return actor_status{}; }};
  });
  auto group = spawn([](allreduce_actor::pointer) {
    return allreduce_actor::behavior_type{[](reduce&) { return reduced{}; }, [](bucket_share&) {}, [](bucket_sum&) {},
                                          [](actor_query&) { return actor_status{}; }};
  });
  auto one_node = spawn([](node_actor::pointer) {
    return node_actor::behavior_type{[](expect_peers&) { return committed{}; },
                                     [](connect_peers&) { return connected{}; }, [](run_over&) {},
                                     [](actor_query&) { return actor_status{}; }};
  });
  auto reports = spawn([](report_actor::pointer) {
    return report_actor::behavior_type{[](progress&) {}, [](epoch_report&) {}, [](evaluation&) {},
                                       [](save_dense&) { return committed{}; }};
  });
  auto one_trainer = spawn([](trainer_actor::pointer) {
    return trainer_actor::behavior_type{[](train&) { return trained{}; }, [](stop&) {},
                                        [](actor_query&) { return actor_status{}; }};
  });
  const header head = some_header();
  const module_spec spec{"EmbeddingBag", {{"num_embeddings", "100"}, {"mode", "sum"}}};
  const module_ref ref{head, server, 4, 1, 3, 2};
  add(errc::not_finite);
  add(dtype::i64);
  add(some_indices());
  add(head);
  add(some_tensor());
  add(spec);
  add(instantiate{head, spec, 1, 3, 2, 4, 5, 6});
  add(ref);
  add(bag_lookup{4, some_indices(), blob::own(std::vector<std::int64_t>{0, 2}),
                 blob::own(std::vector<float>{1, 2, 3, 4})});
  add(lookup{head, {{4, some_indices(), {}, {}}}, 2, dtype::bf16});
  add(rows{head, {some_tensor(), some_tensor()}, 1});
  add(bag_gradient{4, some_indices(), {}, {}, some_tensor()});
  add(gradient{head, 1, false, true, {{4, some_indices(), {}, {}, some_tensor()}}});
  add(gradient_norm{head, 1});
  add(squared_norm{head, some_indices()});
  add(optimizer_step{head, 1, false, 0.5F});
  add(committed{head});
  add(parameters{head, 4});
  add(parameter_info{"weight", dtype::f32, 100, 16});
  add(parameter_list{head, {{"weight", dtype::f32, 100, 16}}});
  add(state_dict{head, 4});
  add(module_state{head, {{"weight", some_tensor()}}});
  add(load_state_dict{head, 4, {{"weight", some_tensor()}}});
  add(row_digests{head, 4, 5, 6});
  add(save_module{head, 4, "folder"});
  add(saved_module{head, "file", 5, "digest"});
  add(restore_module{head, 4, "directory", 40});
  add(release{head, 4});
  add(reduce{head, 1, 2, 3, true, some_tensor()});
  add(reduced{head, 2, true, some_tensor()});
  const trainer_position position{40, 5, 0.5, 0.25, {some_tensor()}, true};
  add(position);
  add(save_dense{head, 1, 5, 0.5, 0.25, 2, {some_tensor()}});
  add(train{head, 1, 2, {{"data", "adult"}}, {{ref}}, group, reports, position, true, 20, "digest", true, 300});
  add(trained{head, 40, true, some_tensor(), 77});
  add(progress{head, 5, 0.25, 1.5, 6});
  add(epoch_report{head, 1, 2, 3, 4, 0.5, 0.75, tensor::own(1, 1, std::vector<double>{0.125}), true, 5, 6, 7, 8});
  add(evaluation{head, 1, 2, 3, 4, some_tensor(), some_tensor(), 0.75, 1.5});
  add(join_server{head, server, 1});
  add(join_trainer{head, one_trainer, 2});
  add(joined{head, 3});
  add(run{head, {{"seed", "7"}}, true});
  add(run_result{
      head, 1, 2, 0.5, 0.25, 0.125, 0.9, 0.8, true, "abc", {some_tensor()}, some_tensor(), 0.5, 1.25, 3, 2, 0.75});
  add(status{head});
  add(stop{head});
  add(bucket_share{head, 1, 2, 3, true, 4, 5, some_tensor()});
  add(bucket_sum{head, 1, 2, some_tensor()});
  const peer_node peer{3, 1, "server 0 (host a, pid 17)", true, {0, 2}, "10.0.0.1:7000"};
  add(peer);
  add(expect_peers{head, {peer}, "/runs/adult/step-000000000000-1a2b3c4d"});
  add(connect_peers{head});
  add(connected{head, {server}, group});
  add(run_over{head, true, "words"});
  add(join_node{head, true, 2, 1, "name", "host", 17, "10.0.0.1:7000", "session", {{"seed", "7"}}, one_node});
  add(admitted{head, 7, 3, 1, {0, 2}, 1, "resume"});
  add(node_lost{head, "session", "why"});
  add(link_lost{head, 1, 2, "why"});
  add(give_up{head, "words"});
  const wait_status wait{"trainer 0", "rows", 12, "server 1"};
  const queue_status queue{"lookups parked", 3, 4096, 5};
  const actor_status actor{head, "trainer 0", "looking up", 12, {wait}, {queue}};
  const node_status node{true, {0, 2}, "host", 17, "name", {queue}};
  add(actor_query{head});
  add(wait);
  add(queue);
  add(actor);
  add(node);
  add(run_status{head, "training", 1, 2, 3, 4, 0.5, 0.25, 0.125, {node}, {actor}, {wait}});
  return all;
}

TEST_F(messages, every_type_of_the_protocol_survives_the_wire) {
  const auto all = samples();
  for (caf::type_id_t id = caf::id_block::troupe::begin; id < caf::id_block::troupe::end; ++id) {
    const auto sample = all.find(id);
    ASSERT_NE(sample, all.end()) << "no sample of message type " << caf::query_type_name(id);
    const bytes sent = save(sample->second);
    caf::message received;
    ASSERT_TRUE(load(sent, received)) << caf::query_type_name(id);
    EXPECT_EQ(caf::to_string(received), caf::to_string(sample->second));
    EXPECT_EQ(save(received), sent) << caf::query_type_name(id);
  }
}

TEST_F(messages, fields_arrive_where_they_belong) {
  gradient received;
  ASSERT_TRUE(
      load(save(gradient{some_header(), 1, false, true, {{4, some_indices(), {}, {}, some_tensor()}}}), received));
  EXPECT_EQ(received.head.run, 7u);
  EXPECT_EQ(received.head.step, 12u);
  EXPECT_EQ(received.head.sequence, 99u);
  EXPECT_EQ(received.head.cause, (message_id{2} << 48) | 41);
  EXPECT_FALSE(received.has_batch);
  EXPECT_TRUE(received.step);
  ASSERT_EQ(received.tables.size(), 1u);
  EXPECT_EQ(received.tables[0].module, 4u);
  EXPECT_EQ(received.tables[0].indices.as<std::int64_t>()[3], std::int64_t{1} << 40);
  EXPECT_EQ(received.tables[0].grad.rows, 2u);
  EXPECT_EQ(received.tables[0].grad.as<float>()[4], 1e-39F);
}

TEST_F(messages, a_blob_within_a_process_is_shared_not_copied) {
  auto numbers = std::make_shared<std::vector<float>>(1000, 1.0F);
  const float* where = numbers->data();
  caf::message sent = caf::make_message(tensor(dtype::f32, 1000, 1, blob::view(numbers, *numbers)));
  EXPECT_EQ(sent.get_as<tensor>(0).as<float>().data(), where);
}

TEST_F(messages, ids_name_sender_and_sequence) {
  header_source source(1, 5);
  EXPECT_EQ(source.next(2, 77).sequence, 1u);
  const header second = source.next(3, 78);
  EXPECT_EQ(id_of(second), (message_id{5} << 48) | 2);
  EXPECT_EQ(second.cause, 78u);
}

TEST_F(messages, truncated_ones_are_refused_at_every_length) {
  const bytes whole = save(gradient{some_header(), 1, true, true, {{4, some_indices(), {}, {}, some_tensor()}}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    gradient received;
    EXPECT_FALSE(load(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), received)) << length;
  }
}

/// The wire form of a blob with a length of our choice and 8 bytes behind it.
bytes forged_blob(caf::actor_system& system, std::uint64_t length, std::uint64_t digest) {
  bytes out;
  caf::binary_serializer sink(system, out);
  EXPECT_TRUE(sink.value(length) && sink.value(digest) && sink.value(std::uint64_t{0x1122334455667788}));
  return out;
}

TEST_F(messages, a_blob_longer_than_its_message_is_refused) {
  for (std::uint64_t length : {std::uint64_t{9}, blob::max_bytes, blob::max_bytes + 1, ~std::uint64_t{0}}) {
    blob received;
    EXPECT_FALSE(load(forged_blob(system_, length, 0), received)) << length;
    EXPECT_TRUE(received.empty());
  }
}

TEST_F(messages, a_blob_with_a_flipped_bit_is_refused) {
  const bytes whole = save(some_indices());
  for (std::size_t i = 8; i < whole.size(); ++i) {
    bytes flipped = whole;
    flipped[i] = static_cast<caf::byte>(static_cast<unsigned char>(flipped[i]) ^ 0x10U);
    blob received;
    EXPECT_FALSE(load(flipped, received)) << i;
  }
}

TEST_F(messages, a_tensor_whose_shape_does_not_match_its_bytes_is_refused) {
  for (auto [r, c] : {std::pair<std::uint64_t, std::uint64_t>{2, 4}, {0, 0}, {~std::uint64_t{0}, 2}, {1ULL << 62, 1}}) {
    tensor wrong = some_tensor();
    wrong.rows = r;
    wrong.cols = c;
    tensor received;
    EXPECT_FALSE(load(save(wrong), received)) << r << " x " << c;
  }
}

TEST_F(messages, an_unknown_dtype_is_refused) {
  bytes wire = save(dtype::u64);
  ASSERT_EQ(wire.size(), 1u);
  wire[0] = static_cast<caf::byte>(200);
  dtype received{};
  EXPECT_FALSE(load(wire, received));
}

TEST_F(messages, errors_carry_their_code_and_context) {
  const caf::error sent = make_failure(errc::bad_index, "table 2: index 100 is outside [0, 100)");
  caf::error received;
  ASSERT_TRUE(load(save(sent), received));
  EXPECT_EQ(received, errc::bad_index);
  EXPECT_EQ(describe(received), "table 2: index 100 is outside [0, 100)");
  EXPECT_FALSE(is_secondary(received));
  EXPECT_TRUE(is_secondary(caf::make_error(caf::sec::request_receiver_down)));
}

TEST_F(messages, every_error_code_has_a_name_of_its_own) {
  for (int number = 0; number <= static_cast<int>(errc::malformed); ++number) {
    errc code{};
    ASSERT_TRUE(from_integer(static_cast<std::uint8_t>(number), code));
    errc back{};
    ASSERT_TRUE(from_string(to_string(code), back));
    EXPECT_EQ(back, code);
  }
  errc code{};
  EXPECT_FALSE(from_integer(static_cast<std::uint8_t>(errc::malformed) + 1, code));
}

}  // namespace
}  // namespace troupe
