'use strict';

// The live part of a page. The server sends its HTML again and again. What has changed goes into
// the page; all else stays, with the focus and the selection in it.
(() => {
  const live = document.getElementById('live');
  const status = document.getElementById('status');
  if (!live || !status || !live.dataset.events) return;

  const LONGEST_PAUSE = 15000;
  let source = null;
  let pause = 0;
  let timer = 0;
  let seen = new Date();

  // It is read to people who do not see the page, so it changes only if it says something else.
  function say(name, text) {
    status.className = 'status ' + name;
    if (status.textContent !== text) status.textContent = text;
  }

  function keyOf(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null;
  }

  function isAlike(old, now) {
    return old.nodeType === now.nodeType && old.nodeName === now.nodeName && keyOf(old) === keyOf(now);
  }

  function update(old, now) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...now.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    updateChildren(old, now);
  }

  function updateChildren(old, now) {
    const keyed = new Map();
    for (const child of old.childNodes) {
      const key = keyOf(child);
      if (key !== null) keyed.set(key, child);
    }
    let at = old.firstChild;
    for (const child of [...now.childNodes]) {
      const key = keyOf(child);
      let known = at && isAlike(at, child) ? at : null;
      if (!known && key !== null && keyed.has(key)) {
        known = keyed.get(key);
        old.insertBefore(known, at);
      }
      if (known) {
        update(known, child);
        at = known.nextSibling;
      } else {
        old.insertBefore(document.importNode(child, true), at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function show(html) {
    const focused = document.activeElement;
    const page = new DOMParser().parseFromString(html, 'text/html');
    updateChildren(live, page.body);
    if (focused && focused !== document.activeElement && focused.isConnected) {
      focused.focus({ preventScroll: true });
    }
  }

  function close() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    source = new EventSource(live.dataset.events);
    source.addEventListener('html', (event) => {
      pause = 0;
      seen = new Date();
      show(event.data);
      if (live.querySelector('[data-down]')) {
        say('lost', 'Not live: the lock store does not answer. Trying again.');
      } else {
        say('live', 'Live: the page changes by itself.');
      }
    });
    // The server ends each stream after some seconds.
    source.addEventListener('again', open);
    source.onerror = () => {
      close();
      const time = seen.toLocaleTimeString();
      say('lost', `Not live: the connection is lost. The page is as of ${time}. Trying again.`);
      pause = Math.min(LONGEST_PAUSE, Math.max(1000, pause * 2));
      timer = setTimeout(open, pause * (0.75 + Math.random() / 2));
    };
  }

  // A page that nobody sees needs no server.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      close();
      say('', '');
    } else {
      open();
    }
  });
  addEventListener('pagehide', close);
  addEventListener('pageshow', (event) => {
    if (event.persisted) open();
  });
  open();
})();
