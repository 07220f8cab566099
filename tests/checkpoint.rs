//! Model directories in and out, and checkpoints that survive what can happen to them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skein::checkpoint::{
    CheckpointError, CheckpointManager, Pretrained, SaveOptions, TokenIds, TrainState, init_model, load_model,
    save_model,
};
use skein_core::config::ScratchConfig;
use tch::{Device, Kind, Tensor};

use crate::models::{FIXTURES, fixture};

fn load(dir: &Path) -> Pretrained {
    load_model(dir, Kind::Float, Device::Cpu).unwrap()
}

fn load_error(dir: &Path) -> String {
    match load_model(dir, Kind::Float, Device::Cpu) {
        Ok(_) => panic!("{} loaded", dir.display()),
        Err(error) => error.to_string(),
    }
}

/// A copy of a fixture that a test may break.
fn copy_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors"] {
        fs::copy(fixture(name).join(file), dir.path().join(file)).unwrap();
    }
    dir
}

fn edit_config(dir: &Path, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = dir.join("config.json");
    let mut config = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(&mut config);
    fs::write(&path, serde_json::to_string(&config).unwrap()).unwrap();
}

fn assert_same_weights(a: &Pretrained, b: &Pretrained) {
    let (a, b) = (a.model.weights(), b.model.weights());
    assert_eq!(a.entries, b.entries);
    for entry in &a.entries {
        assert!(a.rows(entry).equal(&b.rows(entry)), "{} differs", entry.name);
    }
}

#[test]
fn a_saved_model_loads_with_the_same_bits() {
    for name in FIXTURES {
        let original = load(&fixture(name));
        let dir = tempfile::tempdir().unwrap();
        let options = SaveOptions { assets_from: Some(&fixture(name)), ..SaveOptions::default() };
        save_model(dir.path(), &*original.model, &original.config_json, options).unwrap();
        assert_same_weights(&original, &load(dir.path()));
        let read = |dir: &Path, file: &str| fs::read(dir.join(file)).unwrap();
        assert_eq!(
            read(dir.path(), "generation_config.json"),
            read(&fixture(name), "generation_config.json"),
            "copied along"
        );
        // transformers wrote the fixture: the same JSON means it reads ours.
        let json = |dir: &Path| serde_json::from_slice::<Value>(&read(dir, "config.json")).unwrap();
        assert_eq!(json(dir.path()), json(&fixture(name)));
        let stored = Tensor::read_safetensors(dir.path().join("model.safetensors")).unwrap();
        let has_head = stored.iter().any(|(name, _)| name == "lm_head.weight");
        assert_eq!(has_head, !original.model.config().tie_word_embeddings, "{name}");
    }
}

#[test]
fn shards_hold_at_most_their_limit_and_load_with_the_same_bits() {
    const MAX_SHARD_BYTES: u64 = 200_000;
    let original = load(&fixture("qwen3-untied"));
    let dir = tempfile::tempdir().unwrap();
    let options = SaveOptions { max_shard_bytes: MAX_SHARD_BYTES, ..SaveOptions::default() };
    save_model(dir.path(), &*original.model, &original.config_json, options).unwrap();
    assert!(!dir.path().join("model.safetensors").exists());
    let index: Value =
        serde_json::from_slice(&fs::read(dir.path().join("model.safetensors.index.json")).unwrap()).unwrap();
    let bytes: usize = original.model.weights().num_parameters() * 4;
    assert_eq!(index["metadata"]["total_size"], bytes);
    let shards: Vec<PathBuf> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    assert!(shards.len() >= 5, "{shards:?}");
    for shard in &shards {
        // The header comes on top of the tensors.
        assert!(fs::metadata(shard).unwrap().len() < MAX_SHARD_BYTES + 4096);
    }
    assert_same_weights(&original, &load(dir.path()));

    fs::remove_file(&shards[1]).unwrap();
    let error = load_error(dir.path());
    assert!(error.contains(shards[1].file_name().unwrap().to_str().unwrap()), "{error}");
}

#[test]
fn half_types_are_written_as_such_and_load_as_any_type() {
    for (kind, dtype) in [(Kind::BFloat16, "bfloat16"), (Kind::Half, "float16")] {
        let original = load(&fixture("llama-tied"));
        let dir = tempfile::tempdir().unwrap();
        let options = SaveOptions { kind, ..SaveOptions::default() };
        save_model(dir.path(), &*original.model, &original.config_json, options).unwrap();
        let reloaded = load(dir.path());
        assert_eq!(reloaded.config_json["dtype"], dtype);
        assert_eq!(reloaded.model.config().kind, kind);
        for entry in &original.model.weights().entries {
            let rounded = original.model.weights().rows(entry).to_kind(kind).to_kind(Kind::Float);
            assert!(reloaded.model.weights().rows(entry).equal(&rounded), "{} as {dtype}", entry.name);
        }
        let same = load_model(dir.path(), kind, Device::Cpu).unwrap();
        assert!(same.model.weights().leaves.iter().all(|leaf| leaf.tensor.kind() == kind));
    }
}

#[test]
fn a_second_copy_of_a_tied_head_is_ignored() {
    let dir = copy_of("qwen3-tied");
    let path = dir.path().join("model.safetensors");
    let mut tensors = Tensor::read_safetensors(&path).unwrap();
    let head = tensors.iter().find(|(name, _)| name == "model.embed_tokens.weight").unwrap().1.copy();
    tensors.push(("lm_head.weight".into(), head));
    Tensor::write_safetensors(&tensors, &path).unwrap();
    assert_same_weights(&load(dir.path()), &load(&fixture("qwen3-tied")));
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let dir = copy_of("qwen3-tied");
    let path = dir.path().join("model.safetensors");
    let original = Tensor::read_safetensors(&path).unwrap();
    let refusal = |edit: fn(&mut Vec<(String, Tensor)>)| {
        let mut tensors = original.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        edit(&mut tensors);
        Tensor::write_safetensors(&tensors, &path).unwrap();
        let error = load_error(dir.path());
        assert!(error.contains("model.safetensors"), "names the file: {error}");
        error
    };
    const K_NORM: &str = "model.layers.1.self_attn.k_norm.weight";
    let error = refusal(|tensors| tensors.retain(|(name, _)| name != K_NORM));
    assert!(error.contains("missing") && error.contains(K_NORM), "{error}");
    let error = refusal(|tensors| tensors.push(("model.layers.1.self_attn.q_proj.bias".into(), Tensor::from(1f32))));
    assert!(error.contains("does not have") && error.contains("q_proj.bias"), "{error}");
    let error = refusal(|tensors| {
        let tensor = &mut tensors.iter_mut().find(|(name, _)| name == K_NORM).unwrap().1;
        *tensor = tensor.narrow(0, 0, 16).copy();
    });
    assert!(error.contains(K_NORM) && error.contains("[16]") && error.contains("[32]"), "{error}");
    let error = refusal(|tensors| {
        let tensor = &mut tensors.iter_mut().find(|(name, _)| name == K_NORM).unwrap().1;
        *tensor = tensor.to_kind(Kind::Int64);
    });
    assert!(error.contains(K_NORM) && error.contains("I64"), "{error}");
}

#[test]
fn files_that_are_cut_short_or_absent_are_refused_by_name() {
    let dir = copy_of("llama-tied");
    let path = dir.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for len in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = load_error(dir.path());
        assert!(error.contains("truncated") && error.contains("model.safetensors"), "{len} bytes: {error}");
    }
    fs::write(&path, [b"\x08\0\0\0\0\0\0\0not json".as_slice(), &whole].concat()).unwrap();
    let error = load_error(dir.path());
    assert!(error.contains("not a safetensors file"), "{error}");
    fs::remove_file(&path).unwrap();
    let error = load_error(dir.path());
    assert!(error.contains("no model.safetensors"), "{error}");
    fs::remove_file(dir.path().join("config.json")).unwrap();
    let error = load_error(dir.path());
    assert!(error.contains("cannot read") && error.contains("config.json"), "{error}");
}

#[test]
fn configs_that_would_change_the_numbers_are_refused_by_field() {
    type Edit = fn(&mut serde_json::Map<String, Value>);
    let cases: [(&str, Edit); 10] = [
        ("`architectures` is MambaForCausalLM; supported are LlamaForCausalLM", |config| {
            config.insert("architectures".into(), json!(["MambaForCausalLM"]));
        }),
        ("`model_type` is gpt2", |config| {
            config.remove("architectures");
            config.insert("model_type".into(), json!("gpt2"));
        }),
        ("`attention_bias` is true", |config| {
            config.insert("attention_bias".into(), json!(true));
        }),
        ("`hidden_act` is gelu", |config| {
            config.insert("hidden_act".into(), json!("gelu"));
        }),
        ("`rope_parameters.rope_type` is longrope", |config| {
            config["rope_parameters"]["rope_type"] = json!("longrope");
        }),
        ("`quantization_config` is set", |config| {
            config.insert("quantization_config".into(), json!({"bits": 4}));
        }),
        ("`hidden_size` is missing", |config| {
            config.remove("hidden_size");
        }),
        ("`vocab_size` is \"many\"; expected a positive integer", |config| {
            config.insert("vocab_size".into(), json!("many"));
        }),
        ("`num_key_value_heads` is 3", |config| {
            config.insert("num_key_value_heads".into(), json!(3));
        }),
        ("`dtype` is int8", |config| {
            config.insert("dtype".into(), json!("int8"));
        }),
    ];
    for (expected, edit) in cases {
        let dir = copy_of("qwen3-tied");
        edit_config(dir.path(), edit);
        let error = load_error(dir.path());
        assert!(error.contains(expected) && error.contains("config.json"), "{error}\nlacks {expected}");
    }
}

#[test]
fn end_ids_of_both_files_are_joined() {
    let dir = copy_of("qwen3-tied");
    edit_config(dir.path(), |config| {
        config.insert("eos_token_id".into(), json!([7, 2]));
    });
    fs::write(dir.path().join("generation_config.json"), r#"{"eos_token_id": [2, 9]}"#).unwrap();
    assert_eq!(load(dir.path()).model.config().eos_token_ids, [7, 2, 9]);
}

/// A train state that says which step it belongs to.
fn state(step: u64) -> TrainState {
    let moment = Tensor::from_slice(&[step as f32, 0.1, f32::MIN_POSITIVE]);
    TrainState { tensors: vec![("exp_avg.model.norm.weight".into(), moment)], state: json!({ "step": step }) }
}

fn save(manager: &CheckpointManager, model: &Pretrained, step: u64) -> Result<PathBuf, CheckpointError> {
    save_as(manager, model, step, &[])
}

fn save_as(
    manager: &CheckpointManager,
    model: &Pretrained,
    step: u64,
    names: &[&str],
) -> Result<PathBuf, CheckpointError> {
    let write_model = |dir: &Path| save_model(dir, &*model.model, &model.config_json, SaveOptions::default());
    manager.save(step, names, write_model, &state(step))
}

/// Names in the run directory, sorted.
fn listing(run: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_comes_back_as_it_was() {
    let run = tempfile::tempdir().unwrap();
    let model = load(&fixture("qwen3-tied"));
    let manager = CheckpointManager::new(run.path(), 2).unwrap();
    assert!(manager.load_latest().unwrap().is_none());
    let dir = save(&manager, &model, 5).unwrap();
    assert_eq!(dir, run.path().join("step_000005"));
    assert_eq!(fs::read_link(run.path().join("latest")).unwrap(), Path::new("step_000005"));
    let loaded = manager.load_latest().unwrap().unwrap();
    assert_eq!((loaded.step, &loaded.dir), (5, &dir));
    assert_eq!(loaded.train_state.state, state(5).state);
    let [(name, tensor)] = &loaded.train_state.tensors[..] else { panic!("one tensor was saved") };
    assert_eq!(name, "exp_avg.model.norm.weight");
    assert!(tensor.equal(&state(5).tensors[0].1));
    assert_same_weights(&model, &load(&dir));
}

#[test]
fn a_damaged_newest_checkpoint_falls_back_to_the_one_before() {
    type Damage = fn(&Path);
    let damages: [Damage; 5] = [
        |dir| {
            let path = dir.join("model.safetensors");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        },
        |dir| {
            let path = dir.join("trainer/optimizer.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(&path, bytes).unwrap();
        },
        |dir| fs::remove_file(dir.join("trainer/state.json")).unwrap(),
        |dir| fs::remove_file(dir.join("MANIFEST.json")).unwrap(),
        |dir| fs::write(dir.join("MANIFEST.json"), "{").unwrap(),
    ];
    let model = load(&fixture("llama-tied"));
    for damage in damages {
        let run = tempfile::tempdir().unwrap();
        let manager = CheckpointManager::new(run.path(), 3).unwrap();
        save(&manager, &model, 1).unwrap();
        let newest = save(&manager, &model, 2).unwrap();
        damage(&newest);
        assert_eq!(manager.load_latest().unwrap().unwrap().step, 1);
        // The step is reached again: the damaged directory is replaced.
        save(&manager, &model, 2).unwrap();
        assert_eq!(manager.load_latest().unwrap().unwrap().step, 2);
        assert_eq!(listing(run.path()), ["latest", "step_000001", "step_000002"]);
    }
}

#[test]
fn without_its_link_the_newest_whole_checkpoint_is_the_latest() {
    let run = tempfile::tempdir().unwrap();
    let model = load(&fixture("llama-tied"));
    for step in [8, 9, 10] {
        save(&CheckpointManager::new(run.path(), 0).unwrap(), &model, step).unwrap();
    }
    let latest = run.path().join("latest");
    let found = || {
        let manager = CheckpointManager::new(run.path(), 0).unwrap();
        manager.load_latest().unwrap().unwrap().step
    };
    fs::remove_file(&latest).unwrap();
    assert_eq!(found(), 10);
    for nowhere in ["step_000077", "elsewhere", "../step_000010/no/such"] {
        symlink(nowhere, &latest).unwrap();
        assert_eq!(found(), 10, "latest -> {nowhere}");
        fs::remove_file(&latest).unwrap();
    }
    fs::create_dir(&latest).unwrap();
    let error = CheckpointManager::new(run.path(), 0).unwrap_err().to_string();
    assert!(error.contains("latest: a directory stands where the link"), "{error}");
    fs::remove_dir(&latest).unwrap();
    fs::remove_file(run.path().join("step_000010/MANIFEST.json")).unwrap();
    assert_eq!(found(), 9);
    // What a link names and is gone was as far as the run had come: what lies after it was given up.
    fs::remove_dir_all(run.path().join("step_000009")).unwrap();
    symlink("step_000009", &latest).unwrap();
    assert_eq!(found(), 8);
}

#[test]
fn pruning_keeps_the_newest_and_sees_earlier_runs() {
    let run = tempfile::tempdir().unwrap();
    let model = load(&fixture("llama-tied"));
    let all = CheckpointManager::new(run.path(), 0).unwrap();
    for step in [8, 9, 10] {
        save(&all, &model, step).unwrap();
    }
    assert_eq!(all.steps().unwrap(), [8, 9, 10]);
    let last_two = CheckpointManager::new(run.path(), 2).unwrap();
    save(&last_two, &model, 1_000_000).unwrap();
    assert_eq!(listing(run.path()), ["latest", "step_000010", "step_1000000"]);
    // Continued from before: what lies ahead is neither counted nor chosen.
    save(&last_two, &model, 11).unwrap();
    assert_eq!(last_two.steps().unwrap(), [10, 11, 1_000_000]);
    assert_eq!(last_two.load_latest().unwrap().unwrap().step, 11);
}

#[test]
fn a_full_disk_leaves_the_old_checkpoint_and_no_traces() {
    let model = load(&fixture("llama-tied"));
    for file in ["config.json", "model.safetensors", "trainer/optimizer.safetensors", "trainer/state.json"] {
        let run = tempfile::tempdir().unwrap();
        let manager = CheckpointManager::new(run.path(), 1).unwrap();
        save_as(&manager, &model, 1, &["best"]).unwrap();
        // /dev/full answers every write as a full disk does.
        let write_model = |dir: &Path| {
            symlink("/dev/full", dir.join(file)).unwrap();
            save_model(dir, &*model.model, &model.config_json, SaveOptions::default())
        };
        let error = manager.save(2, &["best", "sft"], write_model, &state(2)).unwrap_err();
        assert!(error.to_string().contains("No space left"), "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(listing(run.path()), ["best", "latest", "step_000001"], "no name without its checkpoint");
        assert_eq!(fs::read_link(run.path().join("best")).unwrap(), Path::new("step_000001"));
        assert_eq!(manager.load_latest().unwrap().unwrap().step, 1);
        save_as(&manager, &model, 3, &["best"]).unwrap();
        assert_eq!(listing(run.path()), ["best", "latest", "step_000003"]);
    }
}

#[test]
fn what_a_killed_run_left_is_cleaned_and_nothing_whole_is_lost() {
    let run = tempfile::tempdir().unwrap();
    let model = load(&fixture("llama-tied"));
    let manager = CheckpointManager::new(run.path(), 2).unwrap();
    save(&manager, &model, 1).unwrap();
    save(&manager, &model, 2).unwrap();
    fs::create_dir_all(run.path().join(".tmp-step_000003/trainer")).unwrap();
    fs::write(run.path().join(".tmp-step_000003/model.safetensors"), "half").unwrap();
    fs::create_dir(run.path().join(".tmp-pruned-0")).unwrap();
    symlink("step_000003", run.path().join(".tmp-latest")).unwrap();
    symlink("step_000003", run.path().join("sft")).unwrap();
    // Killed while step 2 was being replaced.
    fs::rename(run.path().join("step_000002"), run.path().join(".tmp-replaced-step_000002")).unwrap();
    fs::write(run.path().join("metrics.jsonl"), "{}").unwrap();
    let manager = CheckpointManager::new(run.path(), 2).unwrap();
    assert_eq!(listing(run.path()), ["latest", "metrics.jsonl", "step_000001", "step_000002"]);
    assert_eq!(manager.load_latest().unwrap().unwrap().step, 2);
}

fn scratch(tie_word_embeddings: bool) -> (ScratchConfig, TokenIds) {
    let config = ScratchConfig { hidden_size: 64, num_hidden_layers: 2, tie_word_embeddings, ..Default::default() };
    (config, TokenIds { vocab_size: 300, eos: vec![3, 4], pad: Some(0) })
}

#[test]
fn a_random_model_is_a_function_of_its_seed() {
    let (config, tokens) = scratch(true);
    let make = |seed| init_model(&config, &tokens, seed, (Kind::Float, Device::Cpu)).unwrap();
    let (a, b, other) = (make(17), make(17), make(18));
    assert_same_weights(&a, &b);
    let leaf = |model: &Pretrained| model.model.weights().leaves[0].tensor.copy();
    assert!(!leaf(&a).equal(&leaf(&other)));
    // A standard error of the deviation is 0.7 / sqrt(19200) = 0.5 %; of the mean, 0.02 / sqrt(19200) = 1.4e-4.
    assert!((leaf(&a).std(true).double_value(&[]) / config.init_std - 1.0).abs() < 0.02);
    assert!(leaf(&a).mean(Kind::Float).double_value(&[]).abs() < 6e-4);
    for entry in a.model.weights().entries.iter().filter(|entry| entry.name.contains("norm")) {
        assert!(a.model.weights().rows(entry).eq(1.0).all().int64_value(&[]) == 1, "{}", entry.name);
    }
}

#[test]
fn a_random_model_saves_and_loads_like_any_other() {
    for tied in [true, false] {
        let (config, tokens) = scratch(tied);
        let model = init_model(&config, &tokens, 1, (Kind::Float, Device::Cpu)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        save_model(dir.path(), &*model.model, &model.config_json, SaveOptions::default()).unwrap();
        let reloaded = load(dir.path());
        assert_same_weights(&model, &reloaded);
        assert_eq!(model.model.config(), reloaded.model.config());
        assert_eq!(reloaded.model.config().eos_token_ids, [3, 4]);
    }
}
