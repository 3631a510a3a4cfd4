// A data link whose peer sends arbitrary frames: to a parameter server with a table, to an allreduce group, to missing
// actors, and as answers to requests. The link must lose the peer or continue.
//
// An input is a sequence of frames (scripted_link.hpp).

#include "cluster/nodes/data_link.hpp"

#include "actors/collective/allreduce_group.hpp"
#include "actors/common/actor_name.hpp"
#include "actors/server/parameter_server.hpp"
#include "cluster/links/bytes.hpp"
#include "tests/fuzz/actors.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/scripted_link.hpp"
#include "tests/fuzz/seed_messages.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::data_link_target {

constexpr std::uint64_t run_number = 1;
constexpr std::size_t frames_max = 16;

msg::module_spec small_table() {
  return {"EmbeddingBag",
          {{"num_embeddings", "5"},
           {"embedding_dim", "2"},
           {"mode", "sum"},
           {"seed", "1"},
           {"table", "0"},
           {"optimizer", "sgd"},
           {"lr", "1"},
           {"reduce", "sum"}}};
}

class process {
 public:
  process()
      : wire_(std::make_shared<scripted_link>()),
        directory_(std::make_shared<nodes::actor_directory>()),
        carrier_(std::make_shared<nodes::data_link>(the_system(), wire_,
                                                    std::make_shared<actors::inline_execution>(&the_system()),
                                                    directory_, nodes::data_link::options{"peer"})) {
    carrier_->start([](const std::string&) {});
    const auto server = actors_.spawn(actors::parameter_server, run_number, 0U);
    caf::anon_send(server, msg::instantiate{msg::header{run_number}, small_table()});
    actors::group_layout layout{{0, 1}, {{}, carrier_->proxy<msg::allreduce_actor>(actors::group_number)}, 0, {}};
    const auto group = actors_.spawn(actors::allreduce_group, run_number, layout);
    directory_->add(actors::server_number(0), caf::actor_cast<caf::strong_actor_ptr>(server));
    directory_->add(actors::group_number, caf::actor_cast<caf::strong_actor_ptr>(group));
    actors_.ask<msg::rows>(carrier_->proxy<msg::parameter_server_actor>(actors::server_number(1)),
                           msg::lookup{msg::header{run_number, 1}, {}, 0, dtype::f32});
    actors_.ask<msg::reduced>(group, msg::reduce{msg::header{run_number, 1}, 0, 0, 1, false,
                                                 msg::tensor::own(3, 2, std::vector<float>(6, 1))});
    run_all();
  }

  ~process() {
    directory_->clear();
    carrier_->close();
  }

  void receive(input from) {
    for (std::size_t i = 0; i < frames_max && !from.empty() && !wire_->closed(); ++i) {
      const auto [kind, body] = scripted_frame(from);
      wire_->receive(kind, body);
      // A request's number becomes the id of a CAF message, whose higher bits mark streams and answers.
      const bool marked = kind == links::link::first_user_kind && body.size() >= sizeof(std::uint64_t) &&
                          links::number_at<std::uint64_t>(body, 0) >> 59 != 0;
      must(wire_->closed() || !marked, "a number that is no request's is taken");
      run_all();
    }
  }

 private:
  std::shared_ptr<scripted_link> wire_;
  std::shared_ptr<nodes::actor_directory> directory_;
  nodes::data_link_ptr carrier_;
  cast actors_;  // ended first
};

enum kinds : std::uint8_t { message_kind, answer_kind, failure_kind, credit_kind };

bytes framed(kinds kind, const std::vector<msg::blob>& parts) {
  return fuzz::framed(std::uint8_t{kind}, joined(parts));
}

bytes framed(kinds kind, const protocol::envelope& head, const caf::message& content) {
  return framed(kind, *protocol::to_frame(head, content));
}

std::vector<std::pair<std::string, bytes>> seeds() {
  the_system();
  std::vector<std::pair<std::string, bytes>> all;
  bytes together;
  for (const auto& [name, content] : seed_messages()) {
    const bool is_bucket = name.starts_with("bucket");
    const bool has_answer = !is_bucket && !name.ends_with("gradient") && !name.starts_with("gradient_of");
    const protocol::envelope head{has_answer ? std::uint64_t{1} : 0,
                                  is_bucket ? actors::group_number : actors::server_number(0)};
    const bytes one = framed(message_kind, head, content);
    all.emplace_back(name, one);
    together.insert(together.end(), one.begin(), one.end());
    if (name == "rows") all.emplace_back("answer", framed(answer_kind, {1, 0}, content));
    // Bits that CAF uses as marks: the message belongs to a stream, or is an answer.
    if (name == "committed") {
      all.emplace_back("request_number_of_a_stream",
                       framed(message_kind, {3ULL << 60 | 1, actors::server_number(0)}, content));
      all.emplace_back("request_number_of_an_answer",
                       framed(message_kind, {1ULL << 63 | 1, actors::server_number(0)}, content));
    }
  }
  all.emplace_back("all_messages", together);
  all.emplace_back("failure",
                   framed(failure_kind, protocol::to_failure_frame(
                                            {1, 0}, protocol::make_failure(protocol::errc::bad_index, "row 9"))));
  all.emplace_back("credit", framed(credit_kind, {msg::blob::own(std::vector<std::uint64_t>{1})}));
  all.emplace_back("no_such_actor", framed(message_kind, {1, 99}, seed_messages().front().second));
  return all;
}

void run(std::span<const std::byte> given) {
  the_system();
  process().receive(input(given));
}

}  // namespace troupe::fuzz::data_link_target

TROUPE_FUZZ_TARGET(data_link)
