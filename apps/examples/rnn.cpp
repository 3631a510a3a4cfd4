// A word-level language model, as in PyTorch's tutorial of its RPC framework: the table of word vectors and the layer
// that scores the next word are on a server, an LSTM is on each trainer, and one optimizer trains them all. The text
// never ends, so it is learnt in chunks: the LSTM's state passes from each chunk to the next, gradients do not
// (truncated backpropagation through time). Each chunk's loss is for words that the model has not seen. It falls to the
// entropy of the grammar that generates the text, which is known.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

/// Sentences of 7 words, such as "cats hear dog and they run .": verbs and pronoun agree with the subject. There are
/// 64, all equally likely.
struct grammar {
  static constexpr std::array<const char*, 16> words = {"cat",    "dog",  "cats",  "dogs", "sees", "hears",
                                                        "see",    "hear", "and",   "it",   "they", "runs",
                                                        "sleeps", "run",  "sleep", "."};
  static constexpr std::uint64_t length = 7;
  static double entropy() { return std::log(64.0) / length; }  ///< per word, in nats

  /// The word at an index of one of the texts.
  static std::int64_t word(std::uint64_t text, std::uint64_t place) {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
    std::uint64_t mixed = (text << 32 | place / length) * odd;
    mixed = (mixed ^ mixed >> 32) * odd;
    const std::int64_t choice = mixed >> 58;  // the sentence's number
    const std::int64_t many = choice & 1;
    const std::array<std::int64_t, length> sentence = {2 * many + (choice >> 1 & 1),
                                                       4 + 2 * many + (choice >> 2 & 1),
                                                       choice >> 3 & 3,
                                                       8,
                                                       9 + many,
                                                       11 + 2 * many + (choice >> 5 & 1),
                                                       15};
    return sentence[place % length];
  }
};

constexpr std::size_t texts = 8;   ///< texts that a trainer reads side by side
constexpr std::size_t chunk = 10;  ///< words per text: chunks begin anywhere in sentences
constexpr std::size_t width = 16;  ///< size of a word's vector
constexpr std::size_t hidden = 32;

struct words {
  std::vector<std::int64_t> now;
  std::vector<std::int64_t> next;
  std::vector<std::int64_t> bags;  ///< where each begins: every word is one bag
};

words read(std::uint32_t rank, std::uint64_t number) {
  words some;
  for (std::uint64_t text = rank * texts; text < (rank + 1) * texts; ++text)
    for (std::uint64_t place = number * chunk; place < (number + 1) * chunk; ++place) {
      some.bags.push_back(some.now.size());
      some.now.push_back(grammar::word(text, place));
      some.next.push_back(grammar::word(text, place + 1));
    }
  return some;
}

tensor number(double x) { return tensor::of<double>({1}, std::array{x}); }

/// Passes from chunk to chunk; with --save and --resume, also from one program run to the next.
struct memory {
  tensor state = {};  ///< the LSTM's; empty before the first chunk
  double losses = 0;  ///< their sum since the last report

  named_tensors state_dict() const { return {{"state", state}, {"losses", number(losses)}}; }
  void load_state_dict(const named_tensors& saved) {
    state = saved[0].second;
    losses = saved[1].second.item();
  }
};

/// The tensors of one of the modules in the file.
named_tensors part_of(const named_tensors& file, const std::string& module) {
  named_tensors part;
  for (const auto& [name, numbers] : file)
    if (name.starts_with(module + ".")) part.emplace_back(name.substr(module.size() + 1), numbers);
  return part;
}

/// Starts with parameters from a file, for example by PyTorch: embedding.weight, lstm.weight_ih_l0, ..., decoder.bias.
task<> load(trainer me, std::string file, remote_module<nn::embedding_bag> embedding, data_parallel lstm,
            remote_module<nn::linear> decoder) {
  const named_tensors all = load_safetensors(file);
  lstm.load_state_dict(part_of(all, "lstm"));
  if (me.rank() == 0) {
    co_await embedding.load_state_dict(part_of(all, "embedding"));
    co_await decoder.load_state_dict(part_of(all, "decoder"));
  }
  co_await me.group().barrier();
}

/// A sentence of the words that the model considers most likely, one after the other.
task<std::string> write_sentence(trainer me, remote_module<nn::embedding_bag> embedding, data_parallel lstm,
                                 remote_module<nn::linear> decoder) {
  constexpr std::array<std::int64_t, 1> bag = {0};
  std::array<std::int64_t, 1> word = {15};  // ends a sentence
  std::string written;
  tensor state;
  for (std::uint64_t i = 0; i < grammar::length; ++i) {
    auto context = me.no_grad();
    const tensor vector = co_await embedding.rows(word, bag);
    const auto [output, next] = lstm(context, reshape(context, vector, {1, 1, width}), state);
    const tensor scores = co_await decoder.infer(reshape(context, output, {1, hidden}));
    word[0] = std::ranges::max_element(scores.as<float>()) - scores.as<float>().begin();
    written += std::string(" ") + grammar::words[word[0]];
    state = next;
  }
  co_return written;
}

task<> train(trainer me, remote_module<nn::embedding_bag> embedding, remote_module<nn::linear> decoder,
             std::uint64_t chunks, std::uint64_t report, std::string start) {
  auto lstm = me.data_parallel(nn::lstm({.features = width, .hidden = hidden}), {.name = "lstm"});
  distributed_optimizer optimizer(adam{.lr = 0.005}, embedding, lstm, decoder);
  memory kept;
  me.register_state("memory", kept);
  for (const auto i : me.steps(chunks)) {
    if (i == 0 && !start.empty()) co_await load(me, start, embedding, lstm, decoder);
    const words some = read(me.rank(), i);
    auto context = me.new_context();
    const tensor vectors = co_await embedding.forward(context, some.now, some.bags);
    const auto [outputs, state] = lstm(context, reshape(context, vectors, {texts, chunk, width}), kept.state);
    const tensor scores = co_await decoder.forward(context, reshape(context, outputs, {texts * chunk, hidden}));
    const tensor loss = nn::cross_entropy(context, scores, some.next);
    co_await context.backward(loss);
    kept.state = state;
    kept.losses += loss.item();
    if ((i + 1) % report == 0) {
      const tensor losses = co_await me.group().all_reduce(number(kept.losses), reduce_op::mean);
      const double mean = losses.item() / report;
      kept.losses = 0;
      if (me.rank() == 0) std::printf("chunk %lu: loss %.6f, perplexity %.4f\n", i + 1, mean, std::exp(mean));
    }
    co_await optimizer.step(context);
  }
  if (me.rank() != 0) co_return;
  const std::string written = co_await write_sentence(me, embedding, lstm, decoder);
  std::printf("it writes:%s\n", written.c_str());
}

int main(int argc, char** argv) {
  std::uint64_t chunks = 700;
  std::uint64_t report = 70;  // 7 chunks are whole sentences
  std::string start;
  cluster cluster(argc, argv,
                  {option("chunks", chunks, "how many chunks are learnt"),
                   option("report", report, "chunks from one report to the next").within(1, 1'000'000),
                   option("start", start, "a safetensors file with the parameters to begin with")});
  auto embedding = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = grammar::words.size(),
                                                              .embedding_dim = width,
                                                              .mode = nn::pooling::sum,
                                                              .reduce = nn::reduction::mean});
  auto decoder = cluster.server(0).make<nn::linear>({.in_features = hidden, .out_features = grammar::words.size()});
  const auto run = cluster.run(2, train, embedding, decoder, chunks, report, start);
  std::printf("%s after %lu steps; the grammar's perplexity is %.4f\n", run.weights_digest.c_str(), run.steps,
              std::exp(grammar::entropy()));
}
