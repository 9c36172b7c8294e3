// The microphone as a WAV file: 16-bit, one channel, at the rate of the audio context.
export async function record() {
  const media = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext(), source = context.createMediaStreamSource(media), node = context.createScriptProcessor(4096, 1, 1), parts = [];
  node.onaudioprocess = (event) => parts.push(new Float32Array(event.inputBuffer.getChannelData(0)));
  source.connect(node);
  node.connect(context.destination);
  return {
    async stop() {
      node.disconnect();
      source.disconnect();
      media.getTracks().forEach((track) => track.stop());
      const rate = context.sampleRate;
      await context.close();
      return new File([wav(parts, rate)], "recording.wav", { type: "audio/wav" });
    },
  };
}

export function wav(parts, rate) {
  const count = parts.reduce((total, part) => total + part.length, 0), view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, letters) => [...letters].forEach((letter, place) => view.setUint8(at + place, letter.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  text(36, "data"); view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) for (const value of part) { view.setInt16(at, Math.max(-1, Math.min(1, value)) * 32767, true); at += 2; }
  return view.buffer;
}
