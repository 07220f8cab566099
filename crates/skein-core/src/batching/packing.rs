//! Packs prompts and their completions into micro-batches of at most so many tokens, without padding.
//!
//! A group's prompt stands once in front of all its completions, so layers see it once; only a group too large for one micro-batch is split, by completions, and its prompt repeated. Tokens that no trained
//! token depends on (the tail after the last one, completions without any) are left out. The same groups
//! always give the same micro-batches. What this module refuses to do: cut a sequence to make it fit.

use thiserror::Error;

/// A prompt and the completions that continue it.
#[derive(Debug, Clone)]
pub struct GroupTokens<'a> {
    /// The prompt's ids, at least one.
    pub prompt_ids: &'a [u32],
    /// What follows the prompt, each on its own.
    pub completions: Vec<CompletionTokens<'a>>,
}

/// One completion's ids and which of them are trained on.
#[derive(Debug, Clone, Copy)]
pub struct CompletionTokens<'a> {
    /// The completion's ids.
    pub token_ids: &'a [u32],
    /// One flag per id, true where the id counts in the loss; `None` is true everywhere.
    pub loss_mask: Option<&'a [bool]>,
}

impl CompletionTokens<'_> {
    /// Whether the id at `token` counts in the loss.
    pub fn is_trained(&self, token: usize) -> bool {
        self.loss_mask.is_none_or(|mask| mask[token])
    }

    /// Ids that count in the loss.
    pub fn num_trained(&self) -> usize {
        (0..self.token_ids.len()).filter(|&token| self.is_trained(token)).count()
    }

    /// Ids the model must read to predict every trained one; `None` if nothing is trained.
    fn num_inputs(&self) -> Option<usize> {
        (0..self.token_ids.len()).rev().find(|&token| self.is_trained(token))
    }
}

/// Why groups cannot be packed. Indices count from 0 in the order given.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PackingError {
    /// Nothing could predict a completion's first token.
    #[error("group {group} has an empty prompt; the first token of a completion needs a token before it")]
    EmptyPrompt {
        /// Which group.
        group: usize,
    },
    /// The mask does not fit the ids.
    #[error("group {group}, completion {completion}: the loss mask has {mask} entries for {tokens} token ids")]
    MaskLength {
        /// Which group.
        group: usize,
        /// Which of its completions.
        completion: usize,
        /// Ids of the completion.
        tokens: usize,
        /// Entries of the mask.
        mask: usize,
    },
    /// One prompt with one completion is already over the budget.
    #[error(
        "group {group}, completion {completion}: prompt and completion need {tokens} tokens, a micro-batch holds \
         {max_tokens}; raise the micro-batch's token budget or drop the sequence"
    )]
    TooLong {
        /// Which group.
        group: usize,
        /// Which of its completions.
        completion: usize,
        /// Tokens needed.
        tokens: usize,
        /// The budget.
        max_tokens: usize,
    },
}

/// Where a group lies in a micro-batch: its prompt's tokens, then each completion's, without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedGroup {
    /// Tokens of the prompt, at least one.
    pub prompt_len: usize,
    /// Tokens the model reads of each completion: 0 where only the completion's first id is predicted.
    pub completion_lens: Vec<usize>,
}

impl PackedGroup {
    /// Tokens of the prompt and of all completions.
    pub fn num_tokens(&self) -> usize {
        self.prompt_len + self.completion_lens.iter().sum::<usize>()
    }
}

/// Which given token a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TargetOrigin {
    /// Index of the group.
    pub group: usize,
    /// Index of the completion in its group.
    pub completion: usize,
    /// Index of the id in its completion.
    pub token: usize,
}

/// Tokens for one forward pass. `N` packed tokens, `R` targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// The groups in the order in which they are packed.
    pub groups: Vec<PackedGroup>,
    /// `[N]`, ids the model reads.
    pub token_ids: Vec<i64>,
    /// `[N]`, each id's position in its own sequence: every completion continues after the prompt.
    pub positions: Vec<i64>,
    /// `[R]`, the index in `0..N` whose hidden state predicts the target. All completions of a group share
    /// their prompt's last token.
    pub predictors: Vec<i64>,
    /// `[R]`, trained ids.
    pub targets: Vec<i64>,
    /// `[R]`, where each target came from.
    pub origins: Vec<TargetOrigin>,
}

/// Packs `groups` into micro-batches of at most `max_tokens` tokens each.
///
/// First-fit decreasing over whole groups; groups over the budget, and all of them without `shared_prefix`, are split
/// first. Completions without a
/// trained token take no part, so the result can be empty.
///
/// # Errors
/// An empty prompt, a mask of another length than its ids, or a single sequence over the budget.
pub fn pack(
    groups: &[GroupTokens<'_>],
    max_tokens: usize,
    shared_prefix: bool,
) -> Result<Vec<MicroBatch>, PackingError> {
    let mut pieces = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        split(index, group, max_tokens, shared_prefix, &mut pieces)?;
    }
    let mut largest_first: Vec<usize> = (0..pieces.len()).collect();
    largest_first.sort_by_key(|&piece| (std::cmp::Reverse(pieces[piece].num_tokens), piece));
    let mut bins: Vec<Bin> = Vec::new();
    for piece in largest_first {
        let num_tokens = pieces[piece].num_tokens;
        match bins.iter_mut().find(|bin| bin.num_tokens + num_tokens <= max_tokens) {
            Some(bin) => {
                bin.num_tokens += num_tokens;
                bin.pieces.push(piece);
            }
            None => bins.push(Bin { num_tokens, pieces: vec![piece] }),
        }
    }
    for bin in &mut bins {
        bin.pieces.sort_unstable();
    }
    bins.sort_by_key(|bin| bin.pieces[0]);
    Ok(bins
        .iter()
        .map(|bin| {
            let mut batch = MicroBatch::with_capacity(bin.num_tokens);
            for &piece in &bin.pieces {
                batch.push(&pieces[piece], &groups[pieces[piece].group]);
            }
            batch
        })
        .collect())
}

/// Completions of one group that stay together.
struct Piece {
    group: usize,
    completions: Vec<(usize, usize)>, // index, tokens read
    num_tokens: usize,
}

struct Bin {
    num_tokens: usize,
    pieces: Vec<usize>,
}

fn split(
    index: usize,
    group: &GroupTokens<'_>,
    max_tokens: usize,
    shared_prefix: bool,
    pieces: &mut Vec<Piece>,
) -> Result<(), PackingError> {
    let prompt_len = group.prompt_ids.len();
    if prompt_len == 0 {
        return Err(PackingError::EmptyPrompt { group: index });
    }
    let mut piece = Piece { group: index, completions: Vec::new(), num_tokens: prompt_len };
    for (completion, tokens) in group.completions.iter().enumerate() {
        let len = tokens.token_ids.len();
        if let Some(mask) = tokens.loss_mask.filter(|mask| mask.len() != len) {
            return Err(PackingError::MaskLength { group: index, completion, tokens: len, mask: mask.len() });
        }
        let Some(num_inputs) = tokens.num_inputs() else { continue };
        let alone = prompt_len + num_inputs;
        if alone > max_tokens {
            return Err(PackingError::TooLong { group: index, completion, tokens: alone, max_tokens });
        }
        let is_full = piece.num_tokens + num_inputs > max_tokens || !shared_prefix;
        if is_full && !piece.completions.is_empty() {
            let full = Piece { group: index, completions: Vec::new(), num_tokens: prompt_len };
            pieces.push(std::mem::replace(&mut piece, full));
        }
        piece.num_tokens += num_inputs;
        piece.completions.push((completion, num_inputs));
    }
    if !piece.completions.is_empty() {
        pieces.push(piece);
    }
    Ok(())
}

impl MicroBatch {
    fn with_capacity(num_tokens: usize) -> Self {
        Self {
            groups: Vec::new(),
            token_ids: Vec::with_capacity(num_tokens),
            positions: Vec::with_capacity(num_tokens),
            predictors: Vec::with_capacity(num_tokens),
            targets: Vec::with_capacity(num_tokens),
            origins: Vec::with_capacity(num_tokens),
        }
    }

    fn push(&mut self, piece: &Piece, group: &GroupTokens<'_>) {
        let prompt_len = group.prompt_ids.len();
        self.extend_tokens(group.prompt_ids, 0);
        let prompt_end = self.token_ids.len();
        for &(completion, num_inputs) in &piece.completions {
            let start = self.token_ids.len();
            let tokens = &group.completions[completion];
            self.extend_tokens(&tokens.token_ids[..num_inputs], prompt_len);
            for token in (0..=num_inputs).filter(|&token| tokens.is_trained(token)) {
                let predictor = if token == 0 { prompt_end - 1 } else { start + token - 1 };
                self.predictors.push(predictor as i64);
                self.targets.push(i64::from(tokens.token_ids[token]));
                self.origins.push(TargetOrigin { group: piece.group, completion, token });
            }
        }
        let completion_lens = piece.completions.iter().map(|&(_, num_inputs)| num_inputs).collect();
        self.groups.push(PackedGroup { prompt_len, completion_lens });
    }

    fn extend_tokens(&mut self, token_ids: &[u32], first_position: usize) {
        self.token_ids.extend(token_ids.iter().map(|&id| i64::from(id)));
        self.positions.extend((first_position..first_position + token_ids.len()).map(|position| position as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group<'a>(prompt_ids: &'a [u32], completions: &[&'a [u32]]) -> GroupTokens<'a> {
        let completions = completions.iter().map(|&token_ids| CompletionTokens { token_ids, loss_mask: None });
        GroupTokens { prompt_ids, completions: completions.collect() }
    }

    #[test]
    fn completions_share_the_prompt_and_its_last_row() {
        let batches = pack(&[group(&[7, 8], &[&[1, 2, 3], &[4]])], 100, true).expect("fits");
        assert_eq!(
            batches,
            [MicroBatch {
                groups: vec![PackedGroup { prompt_len: 2, completion_lens: vec![2, 0] }],
                token_ids: vec![7, 8, 1, 2],
                positions: vec![0, 1, 2, 3],
                predictors: vec![1, 2, 3, 1],
                targets: vec![1, 2, 3, 4],
                origins: [(0, 0), (0, 1), (0, 2), (1, 0)]
                    .map(|(completion, token)| TargetOrigin { group: 0, completion, token })
                    .to_vec(),
            }]
        );
    }

    #[test]
    fn without_sharing_each_completion_has_its_own_prompt() {
        let groups = [group(&[7, 8], &[&[1, 2, 3], &[4]])];
        let batches = pack(&groups, 100, false).expect("fits");
        let alone = |len| PackedGroup { prompt_len: 2, completion_lens: vec![len] };
        assert_eq!(batches[0].groups, [alone(2), alone(0)]);
        assert_eq!(batches[0].token_ids, [7, 8, 1, 2, 7, 8]);
        assert_eq!(batches[0].origins, pack(&groups, 100, true).expect("fits")[0].origins);
    }

    #[test]
    fn masked_tokens_are_no_targets_and_masked_tails_are_not_read() {
        let ids = [1, 2, 3, 4];
        let mask = [false, true, true, false];
        let completion = CompletionTokens { token_ids: &ids, loss_mask: Some(&mask) };
        let nothing = CompletionTokens { token_ids: &ids, loss_mask: Some(&[false; 4]) };
        let groups = [
            GroupTokens { prompt_ids: &[9], completions: vec![nothing, completion] },
            GroupTokens { prompt_ids: &[9], completions: vec![nothing] },
        ];
        let batches = pack(&groups, 8, true).expect("fits");
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].groups, [PackedGroup { prompt_len: 1, completion_lens: vec![2] }]);
        assert_eq!(batches[0].token_ids, [9, 1, 2]);
        assert_eq!((batches[0].predictors.as_slice(), batches[0].targets.as_slice()), (&[1, 2][..], &[2, 3][..]));
    }

    #[test]
    fn what_cannot_be_packed_is_named() {
        assert_eq!(pack(&[group(&[], &[&[1]])], 9, true), Err(PackingError::EmptyPrompt { group: 0 }));
        let too_long = PackingError::TooLong { group: 1, completion: 1, tokens: 5, max_tokens: 4 };
        assert_eq!(pack(&[group(&[1], &[&[1]]), group(&[1, 2], &[&[1], &[1, 2, 3, 4]])], 4, true), Err(too_long));
        let short_mask = CompletionTokens { token_ids: &[1, 2], loss_mask: Some(&[true]) };
        let groups = [GroupTokens { prompt_ids: &[1], completions: vec![short_mask] }];
        assert_eq!(
            pack(&groups, 9, true),
            Err(PackingError::MaskLength { group: 0, completion: 0, tokens: 2, mask: 1 })
        );
    }

    type OwnedGroup = (Vec<u32>, Vec<Vec<(u32, bool)>>);
    type IdsAndMasks = (Vec<Vec<u32>>, Vec<Vec<bool>>);

    fn groups() -> impl Strategy<Value = Vec<OwnedGroup>> {
        let completion = prop::collection::vec((0..50u32, prop::bool::weighted(0.8)), 0..7);
        let group = (prop::collection::vec(0..50u32, 1..6), prop::collection::vec(completion, 0..6));
        prop::collection::vec(group, 0..8)
    }

    proptest! {
        #[test]
        fn every_trained_token_is_predicted_once_within_the_budget(
            owned in groups(),
            max_tokens in 12..40usize,
            shared_prefix: bool,
        ) {
            let split: Vec<IdsAndMasks> =
                owned.iter().map(|(_, all)| all.iter().map(|pairs| pairs.iter().copied().unzip()).unzip()).collect();
            let groups: Vec<GroupTokens<'_>> = owned
                .iter()
                .zip(&split)
                .map(|((prompt_ids, _), (ids, masks))| GroupTokens {
                    prompt_ids,
                    completions: ids
                        .iter()
                        .zip(masks)
                        .map(|(token_ids, mask)| CompletionTokens { token_ids, loss_mask: Some(mask) })
                        .collect(),
                })
                .collect();
            let batches = pack(&groups, max_tokens, shared_prefix).expect("every sequence has at most 11 tokens");
            let mut seen = std::collections::HashSet::new();
            for batch in &batches {
                prop_assert!(batch.token_ids.len() <= max_tokens && !batch.targets.is_empty());
                prop_assert_eq!(batch.groups.iter().map(PackedGroup::num_tokens).sum::<usize>(), batch.token_ids.len());
                for (row, origin) in batch.origins.iter().enumerate() {
                    prop_assert!(seen.insert(*origin));
                    let group = &groups[origin.group];
                    let completion = &group.completions[origin.completion];
                    let predictor = batch.predictors[row] as usize;
                    let before = origin.token.checked_sub(1).map(|token| completion.token_ids[token]);
                    let before = before.unwrap_or(group.prompt_ids[group.prompt_ids.len() - 1]);
                    prop_assert_eq!(batch.token_ids[predictor], i64::from(before));
                    let position = group.prompt_ids.len() + origin.token - 1;
                    prop_assert_eq!(batch.positions[predictor], position as i64);
                    prop_assert_eq!(batch.targets[row], i64::from(completion.token_ids[origin.token]));
                }
            }
            let trained: usize = groups.iter().flat_map(|group| &group.completions).map(|c| c.num_trained()).sum();
            prop_assert_eq!(seen.len(), trained);
        }
    }
}
