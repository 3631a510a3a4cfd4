// Numbers as people read them: always with a unit, never with more digits than mean something.

const digits = (value) => {
  const size = Math.abs(value);
  return value.toLocaleString('en', {
    maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2,
  });
};

export const count = (value) => Number(value).toLocaleString('en', {maximumFractionDigits: 0});

/** 1,240 stays; 18,240,000 becomes 18.2 M. */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)} G`;
  if (size >= 1e6) return `${digits(value / 1e6)} M`;
  if (size >= 1e4) return `${digits(value / 1e3)} k`;
  return digits(value);
}

export function time(ns) {
  const size = Math.abs(ns);
  if (size >= 120e9) return `${digits(ns / 60e9)} min`;
  if (size >= 1e9) return `${digits(ns / 1e9)} s`;
  if (size >= 1e6) return `${digits(ns / 1e6)} ms`;
  if (size >= 1e3) return `${digits(ns / 1e3)} us`;
  return `${Math.round(ns)} ns`;
}

/** A moment of the recording: seconds and microseconds since it began. */
export const moment = (ns) => `${(ns / 1e9).toFixed(6)} s`;

export function bytes(value) {
  const size = Math.abs(value);
  if (size >= 2 ** 30) return `${digits(value / 2 ** 30)} GiB`;
  if (size >= 2 ** 20) return `${digits(value / 2 ** 20)} MiB`;
  if (size >= 2 ** 10) return `${digits(value / 2 ** 10)} KiB`;
  return `${count(value)} B`;
}

export function figure(value, unit = '') {
  const size = Math.abs(value);
  const text =
    size !== 0 && size < 0.01
      ? value.toExponential(2)
      : size < 10
        ? value.toFixed(4).replace(/0+$/, '').replace(/\.$/, '')
        : short(value);
  return unit ? `${text}${unit.startsWith('/') ? unit : ` ${unit}`}` : text;
}

/** A value beside an axis: three digits. */
export const mark = (value) => (Math.abs(value) >= 1e4 ? short(value) : String(Number(value.toPrecision(3))));

export const percent = (share) => `${digits(share * 100)} %`;
