'use strict';

// Looks at the console in a window as narrow as a phone. `NAMES` are hostile names of locks.

const OWNER = '<script>alert(2)</script>';

const page = open('about:blank', '', 'popup,width=390,height=844');
const all = (selector) => [...page.document.querySelectorAll(selector)];
const find = (selector) => page.document.querySelector(selector);
const shows = (text) => page.document.body.innerText.includes(text);
const isLive = () => shows('Live: ') && !shows('Not live');
const takes = () => find('.take a[href]');
const act = (what, name = '-') => fetch(`/act/${what}/${encodeURIComponent(name)}`);
const goTo = (address) => visit(() => { page.location = address; });
const describe = (check) => `${check} at ${page.location}:\n${page.document.body.innerText}`;

function expect(check) {
  if (!check()) console.error(`it is wrong that ${describe(check)}`);
}

async function until(check) {
  for (const end = Date.now() + 60000; !check(); await new Promise((go) => setTimeout(go, 20))) {
    if (Date.now() > end) throw new Error(`never came: ${describe(check)}`);
  }
}

// The page fits, nothing of another made its way into it, and it asked no other host.
function look() {
  expect(() => page.innerWidth <= 390 && page.document.documentElement.scrollWidth <= 390);
  expect(() => page.document.scripts.length === 1 && !find('img, main svg:not([role])'));
  const addresses = page.performance.getEntriesByType('resource').map((it) => it.name);
  expect(() => addresses.length > 1 && addresses.every((it) => /^data:/.test(it) || it.startsWith(`${origin}/locks`)));
}

// Leaves a page, and looks at the next one as soon as that is there.
async function visit(leave) {
  const before = page.document;
  leave();
  await until(() => page.document !== before && page.document.readyState === 'complete');
  look();
}

async function drive() {
  for (const name of ['list:b', 'list:d']) await act('acquire', name);
  await goTo('/locks?q=list:&sort=name');
  await until(isLive);
  const links = () => all('#live tbody th a');
  const names = () => links().map((it) => it.textContent).join();
  const focused = links()[1];
  focused.focus();
  for (const name of ['list:a', 'list:c']) await act('acquire', name);
  await until(() => names() === 'list:a,list:b,list:c,list:d');
  expect(() => page.document.activeElement === focused && focused.textContent === 'list:d');
  await act('release', 'list:a');
  await act('acquire', 'list:e');
  await until(() => names() === 'list:b,list:c,list:d,list:e');
  expect(() => page.document.activeElement === focused && focused.textContent === 'list:d');

  await visit(() => focused.click());
  await until(() => isLive() && shows(OWNER) && find('.chart polyline.held'));
  await act('release', 'list:d');
  await until(() => shows('Nobody holds it.') && !takes());
  await act('acquire', 'list:d');
  await until(() => shows(OWNER) && takes());

  await act('fail');
  await until(() => shows('Not live: the lock store does not answer.') && shows('as of ') && !takes());
  expect(() => !isLive() && shows(OWNER));
  await act('heal');
  await until(() => isLive() && !shows('as of ') && takes());
  await act('cut');
  await until(() => shows('Not live: the connection is lost. The page is as of '));
  expect(() => !isLive() && shows(OWNER));
  await act('mend');
  await until(isLive);

  await visit(() => takes().click());
  find('#confirm').value = 'list:d';
  find('#reason').value = 'it is stuck';
  await visit(() => find('form.force [type=submit]').click());
  await until(() => isLive() && shows('The lock was taken') && shows('Nobody holds it.'));

  for (const name of NAMES) await act('acquire', name);
  for (const name of NAMES) {
    await goTo('/locks');
    const row = all('tr[data-key]').find((it) => it.dataset.key === name);
    await visit(() => row.querySelector('a').click());
    await until(() => isLive() && shows(OWNER));
    look();
    await visit(() => takes().click());
    expect(() => find('input[name=name]').value === name);
  }

  // The name of the oldest hold changes in its place.
  await goTo('/locks');
  await until(isLive);
  for (const name of ['list:b', 'list:c', 'list:e']) await act('release', name);
  await until(() => find('.facts a').textContent === NAMES[0]);
  look();
  for (const other of ['limits', 'jobs', 'clients', 'doctor']) await goTo(`/locks/${other}`);
}

drive().catch((error) => console.error(String(error))).finally(() => {
  console.log('driven');
  document.images[0].removeAttribute('src');
});
