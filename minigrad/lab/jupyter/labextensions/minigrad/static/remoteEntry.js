// Colours the C++ of %%kernel and %%exercise cells as C++, where JupyterLab would read it as Python.
//
// A container of webpack's module federation, written by hand, as JupyterLab loads its prebuilt extensions:
// `init` receives the modules that JupyterLab shares, `get` gives the plugin.
(() => {
  let shared;
  const module_ = async name => (await Object.values(shared[name])[0].get())();

  const isCpp = text => /^\s*%%kernel\b/.test(text) || (/^\s*%%exercise\b/.test(text) && /__global__|extern\s+"C"/.test(text));

  async function plugin() {
    const { Compartment, EditorState, Prec } = await module_('@codemirror/state');
    const { EditorExtensionRegistry, IEditorExtensionRegistry, IEditorLanguageRegistry } =
      await module_('@jupyterlab/codemirror');
    return {
      id: 'minigrad:cpp-cells',
      description: 'C++ in the cells of %%kernel and %%exercise.',
      autoStart: true,
      requires: [IEditorExtensionRegistry, IEditorLanguageRegistry],
      activate: async (app, extensions, languages) => {
        const cpp = Prec.highest((await languages.getLanguage('text/x-c++src')).support); // ahead of the cell's Python
        extensions.addExtension({
          name: 'minigrad:cpp-cells',
          factory: ({ model }) => {
            const language = new Compartment(), python = []; // nothing in place of the cell's own language
            const chosen = text => (isCpp(text) ? cpp : python);
            const follow = EditorState.transactionExtender.of(change => {
              const wanted = change.docChanged ? chosen(change.newDoc.toString()) : language.get(change.startState);
              return wanted === language.get(change.startState) ? null : { effects: language.reconfigure(wanted) };
            });
            return EditorExtensionRegistry.createImmutableExtension([
              language.of(chosen(model.sharedModel.getSource())),
              follow
            ]);
          }
        });
      }
    };
  }

  (window._JUPYTERLAB = window._JUPYTERLAB || {}).minigrad = {
    init: scope => void (shared = scope),
    get: async () => {
      const made = { __esModule: true, default: await plugin() };
      return () => made;
    }
  };
})();
