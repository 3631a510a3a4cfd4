// Hands the trace to Perfetto's page in another window, as its documentation on deep links says: PING until it answers
// PONG, then the bytes. The trace goes from window to window, to no server.

const perfetto = 'https://ui.perfetto.dev';

/** `step`: {step, trainer} for one alone, else the newest of the run. */
export async function openInPerfetto(run, report, step = null) {
  const other = open(perfetto);
  if (!other) return report('The browser kept the new window from opening: allow this page to open windows.');
  let timer = 0;
  const ready = new Promise((resolve, reject) => {
    addEventListener('message', function answered(e) {
      if (e.source !== other || e.origin !== perfetto || e.data !== 'PONG') return;
      removeEventListener('message', answered);
      resolve();
    });
    const begun = performance.now();
    timer = setInterval(() => {
      if (other.closed || performance.now() - begun > 60_000)
        reject(new Error('Perfetto did not answer. Without the internet, download the trace instead.'));
      else other.postMessage('PING', perfetto);
    }, 100);
  }).finally(() => clearInterval(timer));
  try {
    const query = step ? `?${new URLSearchParams(step)}` : '';
    const [answer] = await Promise.all([fetch(`/api/trace.json${query}`), ready]);
    if (!answer.ok)
      throw new Error((await answer.json().catch(() => ({}))).problem ?? 'There is no trace to hand over.');
    const buffer = await answer.arrayBuffer();
    const title = `Troupe run ${run?.run ?? ''}${step ? `, step ${step.step}` : ''}`;
    other.postMessage({perfetto: {buffer, title, fileName: 'troupe-trace.json'}}, perfetto);
  } catch (error) {
    report(error.message);
  }
}
