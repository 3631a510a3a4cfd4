// How each message is taken apart and put together: its fields, in order. The order is the wire format.

#pragma once

#include "protocol/messages.hpp"

namespace troupe {

template <class Inspector>
bool inspect(Inspector& f, module_spec& x) {
  return f.object(x).fields(f.field("type", x.type), f.field("args", x.args));
}

template <class Inspector>
bool inspect(Inspector& f, instantiate& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("spec", x.spec), f.field("shard", x.shard),
                            f.field("shards", x.shards), f.field("trainers", x.trainers),
                            f.field("accumulate", x.accumulate), f.field("staleness", x.staleness),
                            f.field("steps_done", x.steps_done));
}

template <class Inspector>
bool inspect(Inspector& f, module_ref& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("server", x.server), f.field("module", x.module),
                            f.field("shard", x.shard), f.field("shards", x.shards), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, bag_lookup& x) {
  return f.object(x).fields(f.field("module", x.module), f.field("indices", x.indices), f.field("offsets", x.offsets),
                            f.field("weights", x.weights));
}

template <class Inspector>
bool inspect(Inspector& f, lookup& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("tables", x.tables), f.field("staleness", x.staleness),
                            f.field("type", x.type));
}

template <class Inspector>
bool inspect(Inspector& f, rows& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("tables", x.tables), f.field("missing", x.missing));
}

template <class Inspector>
bool inspect(Inspector& f, bag_gradient& x) {
  return f.object(x).fields(f.field("module", x.module), f.field("indices", x.indices), f.field("offsets", x.offsets),
                            f.field("weights", x.weights), f.field("grad", x.grad));
}

template <class Inspector>
bool inspect(Inspector& f, gradient& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("has_batch", x.has_batch),
                            f.field("step", x.step), f.field("tables", x.tables));
}

template <class Inspector>
bool inspect(Inspector& f, gradient_norm& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, squared_norm& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("limbs", x.limbs));
}

template <class Inspector>
bool inspect(Inspector& f, optimizer_step& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("apply", x.apply),
                            f.field("factor", x.factor));
}

template <class Inspector>
bool inspect(Inspector& f, committed& x) {
  return f.object(x).fields(f.field("head", x.head));
}

template <class Inspector>
bool inspect(Inspector& f, parameters& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module));
}

template <class Inspector>
bool inspect(Inspector& f, parameter_info& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("type", x.type), f.field("rows", x.rows),
                            f.field("cols", x.cols));
}

template <class Inspector>
bool inspect(Inspector& f, parameter_list& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("items", x.items));
}

template <class Inspector>
bool inspect(Inspector& f, state_dict& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module));
}

template <class Inspector>
bool inspect(Inspector& f, module_state& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("entries", x.entries));
}

template <class Inspector>
bool inspect(Inspector& f, load_state_dict& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module), f.field("entries", x.entries));
}

template <class Inspector>
bool inspect(Inspector& f, row_digests& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module), f.field("first_row", x.first_row),
                            f.field("rows", x.rows));
}

template <class Inspector>
bool inspect(Inspector& f, save_module& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module), f.field("folder", x.folder));
}

template <class Inspector>
bool inspect(Inspector& f, saved_module& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("name", x.name), f.field("length", x.length),
                            f.field("digest", x.digest));
}

template <class Inspector>
bool inspect(Inspector& f, restore_module& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module), f.field("directory", x.directory),
                            f.field("step", x.step));
}

template <class Inspector>
bool inspect(Inspector& f, release& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("module", x.module));
}

template <class Inspector>
bool inspect(Inspector& f, reduce& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("bucket", x.bucket),
                            f.field("batches", x.batches), f.field("stop", x.stop), f.field("grad", x.grad));
}

template <class Inspector>
bool inspect(Inspector& f, reduced& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("bucket", x.bucket), f.field("stop", x.stop),
                            f.field("grad", x.grad));
}

template <class Inspector>
bool inspect(Inspector& f, group_devices& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("process", x.process), f.field("host", x.host),
                            f.field("uuids", x.uuids), f.field("id", x.id));
}

template <class Inspector>
bool inspect(Inspector& f, bucket_share& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("bucket", x.bucket),
                            f.field("batches", x.batches), f.field("stop", x.stop), f.field("first", x.first),
                            f.field("count", x.count), f.field("grad", x.grad));
}

template <class Inspector>
bool inspect(Inspector& f, bucket_sum& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("bucket", x.bucket), f.field("first", x.first),
                            f.field("grad", x.grad));
}

template <class Inspector>
bool inspect(Inspector& f, trainer_position& x) {
  return f.object(x).fields(f.field("steps_done", x.steps_done), f.field("samples", x.samples),
                            f.field("loss_sum", x.loss_sum), f.field("seconds", x.seconds), f.field("dense", x.dense),
                            f.field("evaluated", x.evaluated));
}

template <class Inspector>
bool inspect(Inspector& f, save_dense& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("samples", x.samples),
                            f.field("loss_sum", x.loss_sum), f.field("seconds", x.seconds),
                            f.field("skipped", x.skipped), f.field("dense", x.dense));
}

template <class Inspector>
bool inspect(Inspector& f, train& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("trainers", x.trainers),
                            f.field("job", x.job), f.field("tables", x.tables), f.field("group", x.group),
                            f.field("reports", x.reports), f.field("from", x.from), f.field("saves", x.saves),
                            f.field("checkpoint_every", x.checkpoint_every), f.field("data_digest", x.data_digest),
                            f.field("remote", x.remote), f.field("request_timeout_ms", x.request_timeout_ms),
                            f.field("group_number", x.group_number));
}

template <class Inspector>
bool inspect(Inspector& f, trained& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("steps", x.steps), f.field("stopped", x.stopped),
                            f.field("dense", x.dense), f.field("dense_digest", x.dense_digest));
}

template <class Inspector>
bool inspect(Inspector& f, progress& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("samples", x.samples), f.field("seconds", x.seconds),
                            f.field("loss_sum", x.loss_sum), f.field("loss_samples", x.loss_samples));
}

template <class Inspector>
bool inspect(Inspector& f, epoch_report& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("epoch", x.epoch),
                            f.field("steps", x.steps), f.field("samples", x.samples), f.field("seconds", x.seconds),
                            f.field("loss_sum", x.loss_sum), f.field("losses", x.losses),
                            f.field("evaluates", x.evaluates), f.field("skipped", x.skipped),
                            f.field("lookups", x.lookups), f.field("staleness_sum", x.staleness_sum),
                            f.field("staleness_max", x.staleness_max));
}

template <class Inspector>
bool inspect(Inspector& f, evaluation& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank), f.field("epoch", x.epoch),
                            f.field("rows", x.rows), f.field("correct", x.correct), f.field("scores", x.scores),
                            f.field("labels", x.labels), f.field("log_loss_sum", x.log_loss_sum),
                            f.field("probability_sum", x.probability_sum), f.field("tested", x.tested),
                            f.field("loss_sum", x.loss_sum));
}

template <class Inspector>
bool inspect(Inspector& f, join_server& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("server", x.server), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, join_trainer& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("trainer", x.trainer), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, joined& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("rank", x.rank));
}

template <class Inspector>
bool inspect(Inspector& f, run& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("job", x.job),
                            f.field("return_weights", x.return_weights));
}

template <class Inspector>
bool inspect(Inspector& f, run_result& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("steps", x.steps), f.field("samples", x.samples),
                            f.field("setup_seconds", x.setup_seconds), f.field("seconds", x.seconds),
                            f.field("loss", x.loss), f.field("auc", x.auc), f.field("accuracy", x.accuracy),
                            f.field("stopped", x.stopped), f.field("weights_digest", x.weights_digest),
                            f.field("tables", x.tables), f.field("dense", x.dense), f.field("log_loss", x.log_loss),
                            f.field("calibration", x.calibration), f.field("skipped_steps", x.skipped_steps),
                            f.field("staleness_max", x.staleness_max), f.field("staleness_mean", x.staleness_mean),
                            f.field("test_loss", x.test_loss), f.field("rmse", x.rmse));
}

template <class Inspector>
bool inspect(Inspector& f, stop& x) {
  return f.object(x).fields(f.field("head", x.head));
}

template <class Inspector>
bool inspect(Inspector& f, peer_node& x) {
  return f.object(x).fields(f.field("node", x.node), f.field("incarnation", x.incarnation), f.field("name", x.name),
                            f.field("trains", x.trains), f.field("ranks", x.ranks), f.field("address", x.address),
                            f.field("certificate", x.certificate));
}

template <class Inspector>
bool inspect(Inspector& f, expect_peers& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("peers", x.peers), f.field("save_folder", x.save_folder));
}

template <class Inspector>
bool inspect(Inspector& f, connect_peers& x) {
  return f.object(x).fields(f.field("head", x.head));
}

template <class Inspector>
bool inspect(Inspector& f, connected& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("servers", x.servers), f.field("group", x.group),
                            f.field("group_number", x.group_number));
}

template <class Inspector>
bool inspect(Inspector& f, run_over& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("done", x.done), f.field("words", x.words));
}

template <class Inspector>
bool inspect(Inspector& f, join_node& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("trains", x.trains), f.field("count", x.count),
                            f.field("rank", x.rank), f.field("name", x.name), f.field("host", x.host),
                            f.field("pid", x.pid), f.field("address", x.address), f.field("session", x.session),
                            f.field("job", x.job), f.field("node", x.node));
}

template <class Inspector>
bool inspect(Inspector& f, admitted& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("run", x.run), f.field("node", x.node),
                            f.field("incarnation", x.incarnation), f.field("ranks", x.ranks),
                            f.field("servers", x.servers), f.field("resume", x.resume));
}

template <class Inspector>
bool inspect(Inspector& f, node_lost& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("session", x.session), f.field("why", x.why));
}

template <class Inspector>
bool inspect(Inspector& f, link_lost& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("node", x.node), f.field("peer", x.peer),
                            f.field("why", x.why));
}

template <class Inspector>
bool inspect(Inspector& f, give_up& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("words", x.words));
}

template <class Inspector>
bool inspect(Inspector& f, actor_query& x) {
  return f.object(x).fields(f.field("head", x.head));
}

template <class Inspector>
bool inspect(Inspector& f, wait_status& x) {
  return f.object(x).fields(f.field("who", x.who), f.field("what", x.what), f.field("step", x.step),
                            f.field("on", x.on));
}

template <class Inspector>
bool inspect(Inspector& f, queue_status& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("messages", x.messages), f.field("bytes", x.bytes),
                            f.field("sender", x.sender));
}

template <class Inspector>
bool inspect(Inspector& f, actor_status& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("name", x.name), f.field("phase", x.phase),
                            f.field("step", x.step), f.field("waits", x.waits), f.field("queues", x.queues));
}

template <class Inspector>
bool inspect(Inspector& f, node_status& x) {
  return f.object(x).fields(f.field("trains", x.trains), f.field("ranks", x.ranks), f.field("host", x.host),
                            f.field("pid", x.pid), f.field("name", x.name), f.field("links", x.links));
}

template <class Inspector>
bool inspect(Inspector& f, status& x) {
  return f.object(x).fields(f.field("head", x.head));
}

template <class Inspector>
bool inspect(Inspector& f, run_status& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("phase", x.phase), f.field("step", x.step),
                            f.field("total_steps", x.total_steps), f.field("servers", x.servers),
                            f.field("trainers", x.trainers), f.field("samples_per_s", x.samples_per_s),
                            f.field("steps_per_s", x.steps_per_s), f.field("progress_age_s", x.progress_age_s),
                            f.field("nodes", x.nodes), f.field("actors", x.actors), f.field("waits", x.waits),
                            f.field("diagnosis", x.diagnosis));
}

template <class Inspector>
bool inspect(Inspector& f, trouble& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("words", x.words));
}

template <class Inspector>
bool inspect(Inspector& f, evidence_query& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("boot", x.boot));
}

template <class Inspector>
bool inspect(Inspector& f, evidence& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("file", x.file), f.field("ring", x.ring),
                            f.field("folder", x.folder), f.field("stacks", x.stacks));
}

template <class Inspector>
bool inspect(Inspector& f, collect_evidence& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("boot", x.boot));
}

template <class Inspector>
bool inspect(Inspector& f, collected_evidence& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("parts", x.parts));
}

template <class Inspector>
bool inspect(Inspector& f, verdict_found& x) {
  return f.object(x).fields(f.field("head", x.head), f.field("words", x.words));
}

}  // namespace troupe