// What the server knows, asked for as JSON.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** `query`: parameters; those that are empty are left out. */
export async function get(path, query = {}) {
  const wanted = Object.entries(query).filter(([, x]) => x !== '' && x !== undefined && x !== null);
  const text = new URLSearchParams(wanted).toString();
  let answer;
  try {
    answer = await fetch(text ? `${path}?${text}` : path);
  } catch {
    throw new Refused(0, 'The program that serves this page does not answer; it may have ended.');
  }
  if (answer.status === 401)
    throw new Refused(401, 'The token is no longer right: open the address that the program has printed.');
  const json = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, json.problem ?? `The server answered with status ${answer.status}.`);
  return json;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The part of the address behind `#`: a view, what of it, and parameters. */
export function readRoute() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [view = '', ...rest] = path.split('/').map(decoded);
  return {view: view || 'overview', item: rest.join('/'), query: Object.fromEntries(new URLSearchParams(query))};
}

export function hashOf(view, item = '', query = {}) {
  const wanted = Object.entries(query).filter(([, x]) => x !== '' && x !== undefined && x !== null);
  const text = new URLSearchParams(wanted).toString();
  return `#/${view}${item !== '' ? `/${encodeURIComponent(item)}` : ''}${text ? `?${text}` : ''}`;
}
